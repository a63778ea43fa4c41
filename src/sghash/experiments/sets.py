"""The data of the experiments: real sets in the place of the paper's, and small built-in ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.builtin import clusters, digits
from sghash.data.catalog import CATALOG
from sghash.data.dataset import DataSet
from sghash.data.loading import load_dataset
from sghash.data.sources import ArraySource
from sghash.errors import MissingData
from sghash.evaluation.truth import ground_truth, truth_folder
from sghash.experiments.experiment import Context
from sghash.neighbors import Neighbors
from sghash.validation import Vectors


class BenchSet(NamedTuple):
    """A set by the name of the paper's set that it stands for, cut to stated sizes.

    `source` is a name for `load_dataset`, "clusters:<width>" for synthetic vectors, or
    "tf-idf:<words>" for bags of words of the texts' definitions.
    """

    label: str
    source: str
    n_vectors: int
    n_queries: int
    metric: str = "l2"

    def settings(self) -> dict[str, Any]:
        """What of it determines a measurement."""
        return {
            "set": self.label,
            "source": self.source,
            "n_vectors": self.n_vectors,
            "n_queries": self.n_queries,
        }


class Loaded(NamedTuple):
    """Vectors (n, d) as they are stored, queries (m, d) float32, the metric, and labels."""

    base: NDArray[Any]
    queries: Vectors
    metric: str
    base_labels: NDArray[Any] | None
    query_labels: NDArray[Any] | None = None


MNIST = BenchSet("MNIST", "mnist", 60_000, 1000)
SIFT = BenchSet("SIFT", "sift-photos", 500_000, 1000)
GIST = BenchSet("GIST", "cifar10-gist", 30_000, 1000)
CIFAR = BenchSet("CIFAR-10", "cifar10-jpeg", 50_000, 1000)
WORDS = BenchSet("words", "glove100", 71_291, 1000, "ip")
TEXTS = BenchSet("texts", "minilm-wordnet", 58_000, 500, "cosine")
#: Sources whose rows come class by class: their first rows would be of few classes.
BY_CLASS = ("cifar10-jpeg",)
#: Sets that no option was ever chosen on; fewer rows than there are, so that slow rivals end.
UNTOUCHED = (
    BenchSet("CIFAR-10 pixels", "cifar10-jpeg", 10_000, 1000),
    BenchSet("bags of words", "tf-idf:1000", 20_000, 496),
)

#: The paper's own sets, which have to be downloaded.
SIFT_1M = BenchSet("SIFT-1M", "sift1m", 1_000_000, 1000)
GIST_1M = BenchSet("GIST-1M", "gist1m", 1_000_000, 1000)
WORD2VEC = BenchSet("WORD2VEC", "word2vec", 71_291, 10_000, "ip")

BUILT_IN_WIDTHS = {"digits": 64}
QUICK_DIGITS = BenchSet("digits", "digits", 1600, 150)
QUICK_CLUSTERS = BenchSet("clusters", "clusters:32", 4000, 150)

#: What stands for what, for the pages that show results.
STAND_INS = (
    "MNIST is the original; SIFT are 500,000 descriptors of other photographs than SIFT-1M's; "
    "GIST are 30,000 descriptors computed from CIFAR-10 (six of its ten classes), not GIST-1M. "
    "Queries: 1,000 of each."
)


def image_sets(context: Context) -> Sequence[BenchSet]:
    """The sets of the paper's L2 experiments, or their quick substitutes."""
    if context.quick:
        return (QUICK_DIGITS, QUICK_CLUSTERS)
    return (MNIST, SIFT_1M, GIST_1M) if context.originals else (MNIST, SIFT, GIST)


def word_set(context: Context) -> BenchSet:
    """The word vectors of the paper's inner product experiment, or their quick substitute."""
    if context.quick:
        return QUICK_CLUSTERS._replace(metric="ip", label="clusters, ip")
    return WORD2VEC if context.originals else WORDS


@functools.lru_cache(maxsize=2)
def load(which: BenchSet) -> Loaded:
    """Read a set; the last two are kept in memory."""
    data = _whole(which.source, which.n_vectors, which.n_queries)
    rows = _chosen(which, data.base.shape[0])
    base = (
        data.base.read(0, data.base.shape[0])[rows]
        if rows is not None
        else (data.base.read(0, which.n_vectors))
    )
    # The same queries in every run, whatever order the publisher gave them.
    n = data.queries.shape[0]
    chosen = np.sort(np.random.default_rng(0).choice(n, size=which.n_queries, replace=False))
    queries = np.asarray(data.queries)[chosen].astype(np.float32)
    kept = slice(0, which.n_vectors) if rows is None else rows
    labels = None if data.base_labels is None else data.base_labels[kept]
    asked = None if data.query_labels is None else data.query_labels[chosen]
    return Loaded(base, queries, which.metric, labels, asked)


def _chosen(which: BenchSet, n: int) -> NDArray[np.int64] | None:
    """Rows of a part of a set that is sorted by class, drawn once; None is the first rows."""
    if which.source not in BY_CLASS or which.n_vectors >= n:
        return None
    return np.sort(np.random.default_rng(0).choice(n, size=which.n_vectors, replace=False))


def check_any_set() -> None:
    """Refuse to start a full run where none of the sets is that nobody offers for download."""
    wanted = [which.source for which in (SIFT, GIST, WORDS, TEXTS)]
    for source in wanted:
        with suppress(MissingData):
            load_dataset(source)
            return
    raise MissingData(
        f"none of {', '.join(wanted)} is here: set SGHASH_DATA to the folder that holds them, or "
        "add --quick for small built-in data"
    )


def checksum(source: str, n_vectors: int, n_queries: int) -> str | None:
    """SHA-256 of the numbers of a whole set; None where the set is not here."""
    try:
        return _whole(source, n_vectors, n_queries).checksum
    except MissingData:
        return None


def width_of(source: str) -> int | None:
    """Numbers in a vector of a source, without reading it; None where that is not known."""
    kind, _, width = source.partition(":")
    if kind in ("clusters", "tf-idf"):
        return int(width)
    entry = CATALOG.get(source)
    return BUILT_IN_WIDTHS.get(source) if entry is None else entry.base[1]


def _whole(source: str, n_vectors: int, n_queries: int) -> DataSet:
    if source.startswith("clusters:"):
        width = int(source.partition(":")[2])
        return clusters(n_vectors=n_vectors, width=width, n_queries=n_queries)
    if source.startswith("tf-idf:"):
        return bags_of_words(load_dataset(TEXTS.source), int(source.partition(":")[2]))
    return digits() if source == "digits" else load_dataset(source)


def bags_of_words(data: DataSet, n_words: int) -> DataSet:
    """The texts of a set as TF-IDF weights of their most frequent words, of length one.

    Words are chosen and weighted by the texts of the base; texts without any of them are left out.
    The texts of the base come in an order drawn once, so that its first rows are a sample.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if data.base_texts is None or data.query_texts is None:
        raise MissingData(f"{data.name} holds no texts")
    weights = TfidfVectorizer(max_features=n_words, dtype=np.float32)
    base = _nonzero(weights.fit_transform(data.base_texts).toarray())
    base = base[np.random.default_rng(0).permutation(len(base))]
    queries = _nonzero(weights.transform(data.query_texts).toarray())
    about = f"TF-IDF weights of the {n_words} most frequent words: {data.about}"
    return DataSet(
        f"{data.name}, words", ArraySource(base), ArraySource(queries), "l2",
        about=about, licence=data.licence,
    )  # fmt: skip


def _nonzero(rows: Vectors) -> Vectors:
    return np.ascontiguousarray(rows[rows.any(axis=1)], dtype=np.float32)


@functools.lru_cache(maxsize=8)
def truth(which: BenchSet, k: int) -> Neighbors:
    """The k true neighbours of the queries of a set; those of real sets are kept on disk."""
    is_built_in = which.source == "digits" or which.source.startswith("clusters:")
    data = load(which)
    return ground_truth(
        data.base,
        data.queries,
        k,
        metric=data.metric,
        cache=None if is_built_in else truth_folder(),
    )
