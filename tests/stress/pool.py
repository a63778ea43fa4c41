"""Models, vectors and their codes, made once before any process is forked.

A row of a stressed collection is the serial number of a vector in this pool: what it must hold
(code, kept vector, decoded vector) is looked up, never computed again.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from twins import has_tables

import sghash
from sghash import Collection
from sghash.collection import incoming
from sghash.kernels.reference import small as twin
from sghash.kernels.vectors.kinds import SMALL

WIDTH, SIZE = 12, 4096
BITS = (20, 21, 33)
PARTS = (3, 5)  # bytes of the codes that name rows of tables
BLOCK = 5  # vectors of a file that are added at a time
KEPT = (None, "float16", "float32", "int8", "int4")
# Kinds that give other vectors back than were put in.
ROUNDED = ("float16", *SMALL)
METRICS = ("l2", "ip", "cosine")


class Pool(NamedTuple):
    """`codes[model][rounded]` and `decoded[model][rounded]` are (n, ...) arrays by serial number.

    `rounded` says of which form of the vectors codes were made (`form_of`).
    """

    models: list
    vectors: np.ndarray
    given_back: dict
    codes: list
    decoded: list
    numbers: dict


@functools.cache
def pool() -> Pool:
    rng = np.random.default_rng(5)
    training = rng.standard_normal((400, WIDTH)).astype(np.float32)
    models = [sghash.ITQ(n_bits=bits, random_state=0).fit(training) for bits in BITS]
    for n_parts in PARTS:
        model = sghash.ProductQuantizer(n_parts=n_parts, n_centroids=4, random_state=0)
        models.append(model.fit(training))
    vectors = rng.standard_normal((2 * SIZE, WIDTH)).astype(np.float32)
    vectors = vectors[_certain(models, vectors, rng)][:SIZE]
    given_back = {kept: _given_back(vectors, kept) for kept in KEPT[1:]}
    forms = [vectors, *(given_back[kept].astype(np.float32) for kept in ROUNDED)]
    codes = [[model.encode(form) for form in forms] for model in models]
    decoded = [[m.decode(c) for c in both] for m, both in zip(models, codes, strict=True)]
    numbers = {model.fingerprint_: i for i, model in enumerate(models)}
    return Pool(models, vectors, given_back, codes, decoded, numbers)


def _given_back(vectors, kept):
    if kept in SMALL:
        return twin.grow(twin.shrink(vectors, kept), WIDTH)
    return vectors.astype(kept)


def form_of(kept):
    """Which form of the vectors `reencode` makes codes of."""
    return 1 + ROUNDED.index(kept) if kept in ROUNDED else 0


def _certain(models, vectors, rng):
    """Vectors none of whose codes hangs on rounding: batches of any size must give one code."""
    keep = np.ones(len(vectors), dtype=bool)
    for form in (vectors, *(_given_back(vectors, kept).astype(np.float32) for kept in ROUNDED)):
        for model in models:
            exact = model.encode(form)
            for _ in range(3):
                noise = rng.choice([-1e-5, 1e-5], vectors.shape).astype(np.float32)
                keep &= (model.encode(form + noise) == exact).all(axis=1)
    assert keep.sum() >= SIZE
    return keep


def shrink_blocks():
    """Vectors that lie in a file are read a few at a time."""
    incoming.BLOCK_BYTES = 4 * WIDTH * BLOCK


class Source(NamedTuple):
    """Vectors of the pool as if they lay in a file."""

    serials: list

    @property
    def shape(self):
        return len(self.serials), WIDTH

    @property
    def dtype(self):
        return np.dtype(np.float32)

    def read(self, start, stop):
        return pool().vectors[self.serials[start:stop]]


def warm_up():
    """Compile every kernel that a program may call: a forked child would do it each time."""
    some, places = pool(), itertools.count()
    # A score with a term for each code (L2) takes other kernels than one without (the others).
    pairs = [(None, "l2"), (None, "ip"), ("float16", "l2"), ("float32", "l2"), ("float32", "ip"),
             ("int8", "l2"), ("int4", "cosine")]  # fmt: skip
    cases = [(some.models[0], *pair) for pair in pairs]
    cases += [(some.models[-1], None, "l2"), (some.models[-1], "float32", "cosine")]
    with tempfile.TemporaryDirectory() as folder:
        for model, kept, metric in cases:
            path = Path(folder) / str(next(places))
            with Collection.create(path, model, keep_vectors=kept, metric=metric) as c:
                c.add(some.vectors[:20], metadata={"n": list(range(20)), "lang": ["de"] * 20})
                c.compact()
                # For a compiler one record of a log, several joined ones, and rows that were
                # read from it are all of different kinds.
                for key in "abc":
                    c.add(some.vectors[:1], [key])
                    _use_everything(c, kept)
                _use_everything(Collection.open(path), kept)
            if "in_memory" in inspect.signature(Collection.open).parameters:
                _use_everything(Collection.open(path, in_memory=True), kept)
            with Collection.create(
                f"{path}-lists", model, keep_vectors=kept, metric=metric, partitions=2
            ) as c:
                for start in (0, 40):  # lists are learned, then carried over
                    c.add(some.vectors[start : start + 40], metadata={"n": list(range(40))})
                    c.compact()
                    _use_everything(c, kept)


def _use_everything(collection, kept):
    vectors = pool().vectors[:20]
    for where in (None, "n > 3"):
        for n in (1, 2):  # a single query takes kernels of its own
            collection.search(vectors[:n], 3, where=where, threads=1)
        by_tables = has_tables(collection.model)
        for shortlist in (None, "all"):
            options = {"shortlist": shortlist, "where": where, "threads": 1}
            collection.search(vectors[:2], 3, rerank="decoder", **options)
            if kept is not None:
                collection.search(vectors[:2], 3, rerank="vectors", **options)
        if not by_tables:
            collection.range_search(vectors[:2], 4, where=where, threads=1)
    if not by_tables:
        collection.similarity_join(2, threads=1)
    collection.get(collection.ids)
    collection.verify()
