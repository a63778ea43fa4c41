"""What sghash offers: codes by Hamming distance, codes by tables, codes before kept vectors."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from sghash.collection import Collection
from sghash.experiments.contenders.contender import Contender, Searcher
from sghash.experiments.hashing import make_model, options_of, options_of_model, warm_up_like
from sghash.index import HammingIndex, TableIndex
from sghash.models import model_class
from sghash.models.base import VectorModel
from sghash.validation import Vectors

METRIC = "cosine"
#: Codes scored against real queries are sharpened by so many sweeps of coordinate descent.
SWEEPS = 3
#: Rows whose kept vectors decide, whatever k.
SHORTLIST = 400


def hamming(
    spec: str, sizes: tuple[int, ...], *, seeds: int = 3, is_ours: bool = False
) -> Contender:
    """Codes of a model by Hamming distance."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        model = make_model(spec, 8 * size, seed, METRIC).fit(base)
        return by_codes(model.encode(base), 8 * size, model.encode, _rows_of(model, len(base)))

    return Contender(
        build,
        sizes,
        seeds,
        is_ours,
        prepare=_warm_up(spec),
        options=lambda size: options_of(spec, 8 * size, METRIC),
    )


def by_codes(
    codes: Any, n_bits: int, encode: Callable[[Vectors], Any], learned_from: int
) -> Searcher:
    """Codes and what makes those of queries."""
    index = HammingIndex(n_bits)
    index.add(codes)
    return Searcher(
        lambda queries, k: index.search(encode(queries), k, threads=1).ids,
        lambda: float(codes.shape[1]),
        learned_from,
    )


def asymmetric(spec: str, sizes: tuple[int, ...]) -> Contender:
    """Codes of SGH scored against real queries."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        model: Any = make_model(spec, 8 * size, seed, METRIC).fit(base)
        return _by_tables(model, model.encode(base, sweeps=SWEEPS), len(base))

    def options(size: int) -> dict[str, str]:
        return {**options_of(spec, 8 * size, METRIC), "sweeps": repr(SWEEPS)}

    return Contender(build, sizes, is_ours=True, prepare=_warm_up(spec), options=options)


def quantizer(name: str, sizes: tuple[int, ...]) -> Contender:
    """Codes of a quantizer of whole bytes, such as "GenerativeQuantizer"."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        model = model_class(name)(n_bytes=size, metric=METRIC, random_state=seed).fit(base)
        return _by_tables(model, model.encode(base), len(base))

    def prepare(rows: Vectors) -> None:
        model = model_class(name)(n_bytes=3, metric=METRIC, n_rounds=1, random_state=0).fit(rows)
        model.encode(rows)

    def options(size: int) -> dict[str, str]:
        return options_of_model(model_class(name)(n_bytes=size, metric=METRIC))

    return Contender(build, sizes, is_ours=True, prepare=prepare, options=options)


def _by_tables(model: VectorModel, codes: Any, n: int) -> Searcher:
    index = TableIndex.for_model(model, metric=METRIC)
    index.add(codes)
    scorer = model.scorer(METRIC)

    def search(queries: Vectors, k: int) -> Any:
        # Tables of all queries at once would fill the memory.
        parts = [queries[first : first + 256] for first in range(0, len(queries), 256)]
        found = [index.search(scorer.query_tables(part), k, threads=1).ids for part in parts]
        return np.concatenate(found)

    return Searcher(search, lambda: float(codes.shape[1]), _rows_of(model, n))


def kept(spec: str, n_bits: int, kind: str, sizes: tuple[int, ...]) -> Contender:
    """A collection: codes choose a shortlist, kept vectors of a `kind` decide."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        model = make_model(spec, n_bits, seed, METRIC).fit(base)

        def create(path: Path) -> Collection:
            collection = Collection.create(path, model, keep_vectors=kind, metric=METRIC)
            collection.add(base)
            collection.compact()
            return collection

        asked = {"rerank": "vectors", "shortlist": SHORTLIST}
        return _collection(create, _rows_of(model, len(base)), asked)

    def options(size: int) -> dict[str, str]:
        more = {"n_bits": n_bits, "kept": kind, "shortlist": SHORTLIST}
        return {**options_of(spec, n_bits, METRIC), **_texts(more)}

    return Contender(build, sizes, is_ours=True, prepare=_warm_up(spec), options=options)


def built(sizes: tuple[int, ...]) -> Contender:
    """What `Collection.build` chooses by itself, searched as it plans."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        def create(path: Path) -> Collection:
            return Collection.build(path, base, metric=METRIC, random_state=seed)

        return _collection(create, len(base), {})

    def options(size: int) -> dict[str, str]:
        asked = inspect.signature(Collection.build).parameters.values()
        defaults = {one.name: one.default for one in asked if one.default is not one.empty}
        named = ("target_recall", "bytes_per_vector", "keep_vectors", "k")
        chosen = _texts({name: defaults[name] for name in named})
        return {**options_of("SGH", 8 * size, METRIC), **chosen}

    return Contender(build, sizes, is_ours=True, prepare=_warm_up("SGH"), options=options)


def _collection(
    create: Callable[[Path], Collection], learned_from: int, options: dict[str, Any]
) -> Searcher:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        collection = stack.enter_context(create(Path(folder) / "collection"))
        closing = stack.pop_all()
    return Searcher(
        lambda queries, k: collection.search(queries, k, threads=1, **options).ids,
        lambda: float(collection.stats()["bytes_per_row"]),
        learned_from,
        closing.close,
    )


def median_signs(sizes: tuple[int, ...]) -> Contender:
    """Is each of the first numbers of a vector above its median?"""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        width = 8 * size
        medians = np.median(base[:, :width], axis=0)

        def encode(rows: Vectors) -> Any:
            return np.packbits(rows[:, :width] > medians, axis=1)

        return by_codes(encode(base), width, encode, len(base))

    return Contender(build, sizes, seeds=1)


def _texts(options: dict[str, Any]) -> dict[str, str]:
    return {name: repr(value) for name, value in options.items()}


def _warm_up(spec: str) -> Callable[[Vectors], None]:
    return lambda rows: warm_up_like(make_model(spec, 16, 0, METRIC), rows.dtype)


def _rows_of(model: VectorModel, n: int) -> int:
    """From how many of n rows a model learned."""
    options = model.get_params(deep=False)
    if options.get("threshold") == "zero":  # signs as they come
        return 0
    most = options.get("sample", options.get("max_rows")) or model.most_rows
    return n if most is None else min(most, n)
