"""A data set made ready for runs: in memory where it fits, with its true neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.dataset import DataSet
from sghash.data.sources import ArraySource, RowSource
from sghash.errors import InvalidInput
from sghash.evaluation.truth import ground_truth
from sghash.validation import check_k, check_vectors

MAX_BYTES = 1 << 31


class Bench:
    """What all runs on one data set share.

    Parameters
    ----------
    data : DataSet
        Loaded into memory if base and queries take no more than `MAX_BYTES` there.
    k : int
        True neighbours per query, the K of RecallK@N.
    depths : sequence of int
        The N of RecallK@N, each at most the number of vectors.
    threads : int or None
        For searching; None uses all cores.
    cache : folder or None
        Where ground truth is kept (`truth_folder()` is the usual place); None keeps nothing.
    wanted : float or None
        Recall that codes with the stages after them are to reach; None judges codes alone.
    """

    def __init__(
        self,
        data: DataSet,
        *,
        k: int = 10,
        depths: Sequence[int] = (10, 100, 1000),
        threads: int | None = None,
        cache: Path | None = None,
        wanted: float | None = None,
    ) -> None:
        n = data.base.shape[0]
        if not depths or max(depths) > n or min(depths) < 1:
            raise InvalidInput(
                f"depths must lie between 1 and {n}, the number of vectors; got {tuple(depths)}"
            )
        size = data.base.shape[0] * data.base.shape[1] * data.base.dtype.itemsize
        self.data = data.in_memory() if size <= MAX_BYTES else data
        self.k, self.depths, self.threads = check_k(k), tuple(sorted(depths)), threads
        self.wanted = wanted
        self.base = _array_of(self.data.base)
        self.queries = check_vectors(np.asarray(self.data.queries), name="queries")
        self.truth = ground_truth(
            self.base, self.queries, k, metric=data.metric, threads=threads, cache=cache
        )

    @cached_property
    def kept(self) -> dict[str, NDArray[Any]]:
        """The base as collections keep it, by the name of the kind."""
        from sghash.evaluation.pipelines import kept_kinds

        return kept_kinds(self)


def _array_of(source: RowSource) -> RowSource | NDArray[Any]:
    """The array behind a source that is in memory, else the source."""
    return source.array if isinstance(source, ArraySource) else source
