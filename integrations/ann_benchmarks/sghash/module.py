"""sghash for ann-benchmarks: copy this folder to `ann_benchmarks/algorithms/` of a checkout.

    cp -r integrations/ann_benchmarks/sghash .../ann_benchmarks/algorithms/
    python install.py --algorithm sghash
    python run.py --algorithm sghash --dataset sift-128-euclidean

Codes of SGH find a shortlist, the kept vectors order it. One query at a time uses one thread, as
the benchmark asks; batches use all cores.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sghash import SGH, Collection, HammingIndex, pack_bits

from ..base.module import BaseANN

METRICS = {"euclidean": "l2", "angular": "cosine"}


class Sghash(BaseANN):
    """A collection with its vectors: Hamming shortlist, then exact distances."""

    def __init__(self, metric: str, n_bits: int, keep_vectors: str = "float32") -> None:
        if metric not in METRICS:
            raise NotImplementedError(f"sghash has no metric {metric!r}: {', '.join(METRICS)}")
        self.metric, self.n_bits, self.keep_vectors = METRICS[metric], n_bits, keep_vectors
        self.shortlist = 1000
        self.folder: Path | None = None
        self.name = self._told()

    def fit(self, X: np.ndarray) -> None:
        """Learn the codes and store them beside the vectors."""
        rows = np.asarray(X, dtype=np.float32)
        model = SGH(n_bits=self.n_bits, metric=self.metric, random_state=0).fit(rows)
        self.folder = Path(tempfile.mkdtemp(prefix="sghash-"))
        with Collection.create(
            self.folder / "collection", model, keep_vectors=self.keep_vectors
        ) as made:
            made.add(rows)
            made.compact()
        self.collection = Collection.open(self.folder / "collection", model=model)
        self.query(rows[0], 10)  # compiles what queries need

    def set_query_arguments(self, shortlist: int) -> None:
        """How many codes have their distances taken."""
        self.shortlist = shortlist
        self.name = self._told()

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Ids of the n nearest, nearest first."""
        return self._search(np.asarray(q)[None], n, threads=1)[0]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        """All queries at once; `get_batch_results` has the ids."""
        self.res = self._search(X, n, threads=None)

    def get_additional(self) -> dict[str, Any]:
        """Bytes of a code, for the tables of the benchmark."""
        return {"bytes_per_code": -(-self.n_bits // 8)}

    def done(self) -> None:
        """Remove the collection."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _search(self, queries: np.ndarray, n: int, threads: int | None) -> np.ndarray:
        found = self.collection.search(
            np.asarray(queries, dtype=np.float32), n, rerank="vectors",
            shortlist=max(n, self.shortlist), threads=threads,
        )  # fmt: skip
        return found.ids

    def _told(self) -> str:
        return f"sghash({self.n_bits} bits, {self.keep_vectors}, shortlist {self.shortlist})"


class SghashHamming(BaseANN):
    """Exact Hamming search of data that are bits already."""

    def __init__(self, metric: str) -> None:
        if metric != "hamming":
            raise NotImplementedError(f"SghashHamming has no metric {metric!r}, only hamming")
        self.name = "sghash-hamming"

    def fit(self, X: np.ndarray) -> None:
        """Pack the bits."""
        bits = np.asarray(X, dtype=np.bool_)
        self.index = HammingIndex(n_bits=bits.shape[1])
        self.index.add(pack_bits(bits))
        self.query(bits[0], 10)

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Ids of the n nearest, nearest first."""
        return self._search(np.asarray(q)[None], n, threads=1)[0]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        """All queries at once; `get_batch_results` has the ids."""
        self.res = self._search(X, n, threads=None)

    def _search(self, queries: np.ndarray, n: int, threads: int | None) -> np.ndarray:
        codes = pack_bits(np.asarray(queries, dtype=np.bool_))
        return self.index.search(codes, n, threads=threads).ids
