"""The data of the experiments: real sets in the place of the paper's, and small built-in ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.builtin import clusters, digits
from sghash.data.dataset import DataSet
from sghash.data.loading import load_dataset
from sghash.errors import MissingData
from sghash.evaluation.truth import ground_truth, truth_folder
from sghash.experiments.experiment import Context
from sghash.neighbors import Neighbors
from sghash.validation import Vectors


class BenchSet(NamedTuple):
    """A set by the name of the paper's set that it stands for, cut to stated sizes.

    `source` is a name for `load_dataset`, or "clusters:<width>" for synthetic vectors.
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
    """Vectors (n, d) as they are stored, queries (m, d) float32, and the metric."""

    base: NDArray[Any]
    queries: Vectors
    metric: str
    base_labels: NDArray[Any] | None


MNIST = BenchSet("MNIST", "mnist", 60_000, 1000)
SIFT = BenchSet("SIFT", "sift-photos", 500_000, 1000)
GIST = BenchSet("GIST", "cifar10-gist", 30_000, 1000)
CIFAR = BenchSet("CIFAR-10", "cifar10-jpeg", 50_000, 1000)
WORDS = BenchSet("words", "glove100", 71_291, 1000, "ip")
TEXTS = BenchSet("texts", "minilm-wordnet", 58_000, 500, "cosine")

#: The paper's own sets, which have to be downloaded.
SIFT_1M = BenchSet("SIFT-1M", "sift1m", 1_000_000, 1000)
GIST_1M = BenchSet("GIST-1M", "gist1m", 1_000_000, 1000)
WORD2VEC = BenchSet("WORD2VEC", "word2vec", 71_291, 10_000, "ip")

QUICK_DIGITS = BenchSet("digits", "digits", 1600, 150)
QUICK_CLUSTERS = BenchSet("clusters", "clusters:32", 4000, 150)

#: What stands for what, for the pages that show results.
STAND_INS = (
    "MNIST is the original; SIFT are 500,000 descriptors of other photographs than SIFT-1M's; "
    "GIST are 30,000 descriptors computed from CIFAR-10, not GIST-1M. Queries: 1,000 of each."
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
    base = data.base.read(0, which.n_vectors)
    # The same queries in every run, whatever order the publisher gave them.
    n = data.queries.shape[0]
    chosen = np.sort(np.random.default_rng(0).choice(n, size=which.n_queries, replace=False))
    queries = np.asarray(data.queries)[chosen].astype(np.float32)
    labels = None if data.base_labels is None else data.base_labels[: which.n_vectors]
    return Loaded(base, queries, which.metric, labels)


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


def _whole(source: str, n_vectors: int, n_queries: int) -> DataSet:
    if source.startswith("clusters:"):
        width = int(source.partition(":")[2])
        return clusters(n_vectors=n_vectors, width=width, n_queries=n_queries)
    return digits() if source == "digits" else load_dataset(source)


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
