"""sghash for ann-benchmarks; ../README.md says how to run it there.

`Sghash` scans the codes of SGH for a shortlist that kept vectors order. `SghashLists` visits the
nearest lists of codes only, as many as a wanted share of the true neighbours takes. `SghashHamming`
is exact search of data that are bits already. One query at a time uses one thread, as the benchmark
asks; batches use all cores.

The benchmark takes the time of `fit` and of queries. Kernels are compiled before: a constructor
builds and searches a small index and throws it away, and each setting is tried before it is timed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sghash import SGH, Collection, HammingIndex, pack_bits
from sghash.kernels import kernel

from ..base.module import BaseANN

METRICS = {"euclidean": "l2", "angular": "cosine"}
#: Rows that are asked for before time is taken: enough for the kernels that serve batches.
WARMING = 64


class _Measured(BaseANN):
    """What all of ours share: one search for single queries and batches, and counted bytes."""

    index_bytes = 0

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Ids of the n nearest, nearest first; fewer where there are fewer rows."""
        ids = self._search(np.asarray(q)[None], n, threads=1)[0]
        return ids[ids >= 0]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        """All queries at once; `get_batch_results` has the ids."""
        self.res = [ids[ids >= 0] for ids in self._search(np.asarray(X), n, threads=None)]

    def get_memory_usage(self) -> float:
        """Kilobytes of codes, ids, kept vectors, lists and model.

        The benchmark takes what is there after `fit` less what was there before. The growth of the
        process, which it would take otherwise, holds compiled code and a copy of the rows as well.
        """
        return self.index_bytes / 1024

    def get_additional(self) -> dict[str, Any]:
        """The same in bytes, among the attributes of a result."""
        return {"index_bytes": self.index_bytes}

    def _warm(self, rows: np.ndarray) -> None:
        kernel("simd")  # a process that has searched little would go on with NumPy
        some = rows[:WARMING]
        for count in {min(count, len(rows)) for count in (10, 100)}:
            for row in some[:10]:
                self.query(row, count)
            self.batch_query(some, count)
        self.res = None

    def _search(self, queries: np.ndarray, n: int, threads: int | None) -> np.ndarray:
        raise NotImplementedError


class Sghash(_Measured):
    """A collection with its vectors: a shortlist by Hamming distance, then exact distances."""

    in_lists = False
    unasked: float = 1000

    def __init__(self, metric: str, n_bits: int, keep_vectors: str = "float32") -> None:
        if metric not in METRICS:
            raise NotImplementedError(f"sghash has no metric {metric!r}: {', '.join(METRICS)}")
        self.metric, self.n_bits, self.keep_vectors = METRICS[metric], n_bits, keep_vectors
        self.folder: Path | None = None
        self.wanted: dict[str, Any] = {}
        self._ask(self.unasked)
        self._build(np.random.default_rng(0).standard_normal((2500, 16), dtype=np.float32), 16)
        self.done()

    def fit(self, X: np.ndarray) -> None:
        """Learn the codes and store them beside the vectors."""
        self._build(np.asarray(X, dtype=np.float32), "auto")

    def set_query_arguments(self, wanted: float) -> None:
        """How many codes have their distances taken."""
        self._ask(wanted)
        self._warm(self.first_rows)

    def get_additional(self) -> dict[str, Any]:
        """Bytes of the index and of a code, among the attributes of a result."""
        return {"index_bytes": self.index_bytes, "bytes_per_code": -(-self.n_bits // 8)}

    def done(self) -> None:
        """Remove the collection."""
        if self.folder is not None:
            self.collection.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder, self.index_bytes = None, 0

    def _build(self, rows: np.ndarray, lists: int | str) -> None:
        self.done()
        model = SGH(n_bits=self.n_bits, metric=self.metric, random_state=0).fit(rows)
        self.folder = Path(tempfile.mkdtemp(prefix="sghash-"))
        with Collection.create(
            self.folder / "collection", model, keep_vectors=self.keep_vectors,
            partitions=lists if self.in_lists else None,
        ) as made:  # fmt: skip
            made.add(rows)
            made.compact()
            stats = made.stats()
        kinds = ("segment_bytes", "list_bytes", "log_bytes", "model_bytes")
        self.index_bytes = sum(int(stats[kind]) for kind in kinds)
        self.collection = Collection.open(self.folder / "collection", model=model)
        self.first_rows = rows[:WARMING].copy()
        self._warm(self.first_rows)

    def _ask(self, wanted: float) -> None:
        self.wanted = {"rerank": "vectors", "shortlist": int(wanted)}
        self.name = f"sghash({self.n_bits} bits, {self.keep_vectors}, shortlist {wanted})"

    def _search(self, queries: np.ndarray, n: int, threads: int | None) -> np.ndarray:
        wanted = dict(self.wanted)
        if "shortlist" in wanted:
            wanted["shortlist"] = max(n, wanted["shortlist"])
        found = self.collection.search(
            np.asarray(queries, dtype=np.float32), n, threads=threads, **wanted
        )
        return found.ids


class SghashLists(Sghash):
    """The same collection in lists; the query argument is the share of neighbours to be found."""

    in_lists = True
    unasked = 0.9

    def _ask(self, wanted: float) -> None:
        self.wanted = {"target_recall": wanted}
        self.name = f"sghash-lists({self.n_bits} bits, {self.keep_vectors}, target {wanted})"


class SghashHamming(_Measured):
    """Exact Hamming search of data that are bits already."""

    def __init__(self, metric: str) -> None:
        if metric != "hamming":
            raise NotImplementedError(f"SghashHamming has no metric {metric!r}, only hamming")
        self.name = "sghash-hamming"
        self.fit(np.random.default_rng(0).random((2500, 64)) < 0.5)
        self.index_bytes = 0

    def fit(self, X: np.ndarray) -> None:
        """Pack the bits."""
        bits = np.asarray(X, dtype=np.bool_)
        self.index = HammingIndex(n_bits=bits.shape[1])
        self.index.add(pack_bits(bits))
        self.index_bytes = self.index.nbytes
        self._warm(bits)

    def _search(self, queries: np.ndarray, n: int, threads: int | None) -> np.ndarray:
        codes = pack_bits(np.asarray(queries, dtype=np.bool_))
        return self.index.search(codes, n, threads=threads).ids
