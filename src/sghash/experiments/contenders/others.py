"""Other packages: FAISS, usearch, turbovec and rabitqlib, each loaded when it is measured.

Bytes a row of an index that tells them only by its file: what the file of some rows grows by with
the next, so that what is stored once (rotations, centroids) does not count, as it does not for us.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sghash.experiments.contenders.contender import Contender, Searcher
from sghash.optional import require
from sghash.validation import Vectors

#: What FAISS's RaBitQ stores beside the bits of a code.
FACTOR_BYTES = 8
#: rabitqlib divides rows into so many clusters, all of which are searched.
CLUSTERS = 64
#: Rows that turbovec is calibrated on: its documentation asks for about as many.
CALIBRATED = 1024
#: OPQ learns its rotation in fewer rounds from fewer rows than FAISS would by itself (50, 65,536):
#: minutes less, and as good: with 32 bytes on the texts Recall10@10 is .689 instead of .687.
ROTATION_ROUNDS, ROTATION_ROWS = 20, 16_384
# Rows of the two files that are compared for bytes a row.
_FEW, _MORE = 20_480, 40_960


def is_here(package: str | None) -> bool:
    """Whether a package that a contender needs is installed; None is none."""
    return package is None or importlib.util.find_spec(package) is not None


def product(sizes: tuple[int, ...], *, rotate: bool) -> Contender:
    """FAISS's PQ or OPQ with eight bits a part."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        faiss = require("faiss", extra="faiss")
        inner = faiss.IndexPQ(base.shape[1], size, 8, faiss.METRIC_INNER_PRODUCT)
        inner.pq.cp.seed = seed + 1
        inner.pq.cp.min_points_per_centroid = 1  # no warnings about small built-in data
        index = faiss.IndexPreTransform(_rotation(base.shape[1], size), inner) if rotate else inner
        # FAISS starts from the first rows: another order is another seed of its rotation.
        rows = np.random.default_rng(seed).permutation(len(base))[: 256 * 256]
        index.train(base[rows])
        index.add(base)
        return Searcher(_faiss_search(index), lambda: float(inner.code_size), len(rows))

    learned = {"rounds": ROTATION_ROUNDS, "rows": ROTATION_ROWS} if rotate else {}
    options = {name: str(value) for name, value in learned.items()}
    return Contender(build, sizes, package="faiss", options=lambda size: options)


def _rotation(width: int, n_parts: int) -> Any:
    faiss = require("faiss", extra="faiss")
    rotation = faiss.OPQMatrix(width, n_parts)
    rotation.niter, rotation.max_train_points = ROTATION_ROUNDS, ROTATION_ROWS
    return rotation


def rabitq(sizes: dict[int, int]) -> Contender:
    """FAISS's RaBitQ with real queries: budget -> bits a number.

    One bit a number with fewer directions than columns takes the principal ones, turned at random;
    with more, random directions; several bits a number take all columns.
    """

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        faiss = require("faiss", extra="faiss")
        width, bits = base.shape[1], sizes[size]
        n_directions = 8 * (size - FACTOR_BYTES) if bits == 1 else width
        inner = faiss.IndexRaBitQ(n_directions, faiss.METRIC_INNER_PRODUCT, bits)
        n_axes = min(n_directions, width)
        turn = faiss.RandomRotationMatrix(n_axes, n_directions)
        turn.init(seed)
        index = faiss.IndexPreTransform(turn, inner)
        axes = faiss.PCAMatrix(width, n_axes)
        if n_axes < width:
            index.prepend_transform(axes)
        index.train(base)
        index.add(base)
        return Searcher(_faiss_search(index), lambda: float(inner.code_size), len(base))

    return Contender(build, tuple(sizes), package="faiss", options=_bits(sizes))


def _faiss_search(index: Any) -> Callable[[Vectors, int], Any]:
    def search(queries: Vectors, k: int) -> Any:
        with _one_thread():
            return index.search(queries, k)[1]

    return search


@contextmanager
def _one_thread() -> Iterator[None]:
    faiss = require("faiss", extra="faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def usearch_scan(kind: str, sizes: tuple[int, ...]) -> Contender:
    """usearch over all rows without a graph: signs ("b1") or bytes ("i8")."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        module = require("usearch.index", extra="bench")
        rows = _small(base, kind)
        metric = module.MetricKind.Hamming if kind == "b1" else module.MetricKind.Cos

        def search(queries: Vectors, k: int) -> Any:
            asked = _small(queries, kind)
            found = module.search(rows, asked, k, metric, exact=True, threads=1, dtype=kind)
            return np.reshape(found.keys, (len(queries), -1))

        return Searcher(search, lambda: float(rows.shape[1]), 0)

    return Contender(build, sizes, seeds=1, package="usearch")


def usearch_graph(kind: str, sizes: tuple[int, ...]) -> Contender:
    """usearch's graph (HNSW) with its own settings."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        module = require("usearch.index", extra="bench")

        def made(rows: Vectors) -> Any:
            metric = "hamming" if kind == "b1" else "cos"
            index = module.Index(ndim=rows.shape[1], metric=metric, dtype=kind)
            # One thread, so that the graph is the same every time.
            index.add(np.arange(len(rows)), _signs(rows) if kind == "b1" else rows, threads=1)
            return index

        index = made(base)

        def search(queries: Vectors, k: int) -> Any:
            asked = _signs(queries) if kind == "b1" else queries
            return np.reshape(index.search(asked, k, threads=1).keys, (len(queries), -1))

        return Searcher(search, lambda: bytes_a_row(lambda rows: len(made(rows).save()), base), 0)

    return Contender(build, sizes, seeds=1, package="usearch")


def _small(rows: Vectors, kind: str) -> Any:
    return _signs(rows) if kind == "b1" else np.rint(127 * rows).astype(np.int8)


def _signs(rows: Vectors) -> Any:
    return np.packbits(rows > 0, axis=1)


def turbovec(sizes: dict[int, int], *, calibrate: bool) -> Contender:
    """turbovec: budget -> bits a number; calibrated on some rows, or not."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        module = importlib.import_module("turbovec")
        index = module.TurboQuantIndex(base.shape[1], sizes[size])
        if calibrate:
            chosen = np.random.default_rng(seed).permutation(len(base))[:CALIBRATED]
            index.calibrate(base[np.sort(chosen)])
        index.add(base)

        def file_size(rows: Vectors) -> int:
            other = module.TurboQuantIndex(rows.shape[1], sizes[size])
            other.add(rows)
            return len(other.to_bytes())

        return Searcher(
            lambda queries, k: index.search(queries, k)[1],
            lambda: bytes_a_row(file_size, base),
            min(CALIBRATED, len(base)) if calibrate else 0,
        )

    seeds, rows = (3, str(CALIBRATED)) if calibrate else (1, "0")
    options = _bits(sizes, calibrated_on=rows)
    return Contender(build, tuple(sizes), seeds, package="turbovec", options=options)


def rabitqlib(sizes: dict[int, int]) -> Contender:
    """RaBitQ by its authors: budget -> bits a number; all clusters are searched."""

    def build(base: Vectors, size: int, seed: int) -> Searcher:
        module = importlib.import_module("rabitqlib")
        n_clusters = min(CLUSTERS, len(base) // 64)
        means = module.RaBitQKMeans(base.shape[1], n_clusters, seed=seed, num_threads=1)
        means.train(base)

        def made(rows: Vectors) -> Any:
            index = module.IvfIndex(
                dim=rows.shape[1], max_elements=len(rows), num_clusters=n_clusters,
                nbits=sizes[size], metric="ip",
            )  # fmt: skip
            index.build(rows, means.centroids, means.assignments[: len(rows)])
            return index

        def file_size(rows: Vectors) -> int:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "index"
                made(rows).save(str(path))
                return path.stat().st_size

        index = made(base)
        return Searcher(
            lambda queries, k: np.asarray(index.search(queries, k=k, nprobe=n_clusters)[0]),
            lambda: bytes_a_row(file_size, base),
            len(base),
        )

    options = _bits(sizes, clusters=str(CLUSTERS))
    return Contender(build, tuple(sizes), package="rabitqlib", options=options)


def _bits(sizes: dict[int, int], **more: str) -> Callable[[int], dict[str, str]]:
    """The options of what has so many bits a number."""
    return lambda size: {"bits": str(sizes[size]), **more}


def bytes_a_row(file_size: Callable[[Vectors], int], base: Vectors) -> float:
    """By how much the file of an index grows with a row, in whole bytes.

    Some indexes fill up blocks of rows, more or less of them by chance: rounding takes that out.
    """
    more = min(_MORE, len(base))
    few = min(_FEW, more // 2)
    return float(round((file_size(base[:more]) - file_size(base[:few])) / (more - few)))
