"""`DataSet`: vectors to search, queries and what is known of them, whatever files hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.sources import ArraySource, RowSource, content_hash
from sghash.errors import BadFile, InvalidInput
from sghash.validation import METRICS


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Vectors `base` (n, d) that are searched and learned from, and `queries` (m, d).

    Attributes
    ----------
    name : str
        The name under which `load_dataset` knows it.
    base, queries : RowSource
        Never overlapping: no query is a row of the base, unless the publisher made it so.
    metric : "l2", "ip" or "cosine"
        What makes two vectors neighbours.
    base_labels, query_labels : array or None
        A class per row.
    base_texts, query_texts : sequence of str or None
        The word or sentence that a row stands for.
    neighbors : RowSource or None
        Ids (m, k) of the true neighbours as published; ties are in the publisher's order.
    about : str
        What it is, in one sentence.
    licence : str
        Under what terms it may be used.
    """

    name: str
    base: RowSource
    queries: RowSource
    metric: str = "l2"
    base_labels: NDArray[Any] | None = None
    query_labels: NDArray[Any] | None = None
    base_texts: Sequence[str] | None = None
    query_texts: Sequence[str] | None = None
    neighbors: RowSource | None = None
    about: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InvalidInput(f"metric must be one of {', '.join(METRICS)}; got {self.metric!r}")
        if self.base.shape[1] != self.queries.shape[1]:
            raise BadFile(
                f"{self.name}: the base is {self.base.shape[1]} wide, the queries "
                f"{self.queries.shape[1]}: they must agree"
            )
        n, m = self.base.shape[0], self.queries.shape[0]
        for side, rows in (("base", n), ("query", m)):
            for kind in ("labels", "texts"):
                values = getattr(self, f"{side}_{kind}")
                if values is not None and len(values) != rows:
                    raise BadFile(
                        f"{self.name}: {len(values)} {kind} for {rows} rows of the {side}: "
                        "there must be one per row"
                    )

    def __repr__(self) -> str:
        n, width = self.base.shape
        return f"<DataSet {self.name!r}: {n} x {width}, {len(self.queries)} queries, {self.metric}>"

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the numbers of base and queries, and of the metric.

        It does not depend on the file format; the first use reads everything once.
        """
        parts = (content_hash(self.base), content_hash(self.queries), self.metric)
        return hashlib.sha256(":".join(parts).encode()).hexdigest()

    def in_memory(self) -> DataSet:
        """The same set with base and queries loaded."""
        base, queries = np.asarray(self.base), np.asarray(self.queries)
        loaded = replace(self, base=ArraySource(base), queries=ArraySource(queries))
        if "checksum" in self.__dict__:
            loaded.__dict__["checksum"] = self.checksum
        return loaded
