"""Our indexes under the names and habits of FAISS's binary ones, to try them in its place.

    from faiss_binary import IndexBinaryFlat     # instead of: from faiss import IndexBinaryFlat

FAISS's way, not ours: a radius is exclusive, `remove_ids` of a flat index gives the rows that stay
new numbers, `merge_from` empties the other index. Ours, not FAISS's: ties go by id, an id stands
for one row only, bad input is refused in a sentence (`sghash.InvalidInput`). Distances do not
depend on the order of bits in a byte, so codes are the same bytes on both sides.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike

from sghash import HammingIndex, InvalidInput, PartitionedIndex


class IndexBinaryFlat:
    """Exact search; a row's id is its place."""

    is_trained = True

    def __init__(self, d: int) -> None:
        if d % 8:
            raise InvalidInput(f"d must be a multiple of 8, got {d}: pad the codes with zero bits")
        self.d, self.code_size = d, d // 8
        self.reset()

    @property
    def ntotal(self) -> int:
        return len(self.index)

    def reset(self) -> None:
        self.index = HammingIndex(self.d)

    def train(self, x: ArrayLike) -> None:
        """Learn nothing, as flat indexes do."""

    def add(self, x: ArrayLike) -> None:
        self.index.add(x)

    def search(self, x: ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = self.index.search(x, k)
        return found.distances, found.ids

    def assign(self, x: ArrayLike, k: int) -> np.ndarray:
        return self.search(x, k)[1]

    def range_search(self, x: ArrayLike, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows nearer than `radius`: exclusive, while ours is inclusive."""
        if radius <= 0:
            nothing = np.empty(0, dtype=np.int64)
            return np.zeros(len(np.asarray(x)) + 1, dtype=np.int64), nothing, nothing
        found = self.index.range_search(x, radius - 1)
        return found.limits, found.distances, found.ids

    def reconstruct(self, key: int) -> np.ndarray:
        return self.index.codes_of([key])[0]

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> np.ndarray:
        stop = self.ntotal if ni < 0 else n0 + ni
        return self.index.codes_of(np.arange(n0, stop))

    def remove_ids(self, x: ArrayLike) -> int:
        """Remove rows, those that are not there left out; the others move up. Returns how many."""
        left = np.setdiff1d(self.index.ids, np.asarray(x, dtype=np.int64))
        removed = self.ntotal - len(left)
        codes = self.index.codes_of(left)
        self.reset()
        self.index.add(codes)
        return removed

    def merge_from(self, other: IndexBinaryFlat, add_id: int = 0) -> None:
        """Take all rows of `other` behind ours, and leave it empty."""
        self._check_partner(other)
        if add_id:
            raise InvalidInput("rows of a flat index are numbered by place: leave add_id out")
        self.index.add(other.index.codes)
        other.reset()

    def _check_partner(self, other: IndexBinaryFlat) -> None:
        if other is self:
            raise InvalidInput("an index cannot be merged with itself")
        if (type(other), other.d) != (type(self), self.d):
            raise InvalidInput(
                f"a {type(other).__name__} of {other.d} bits does not fit a "
                f"{type(self).__name__} of {self.d}: merge indexes of one kind and length"
            )


class IndexBinaryIDMap(IndexBinaryFlat):
    """Exact search with ids of your own, which stay when other rows go."""

    def add(self, x: ArrayLike) -> None:
        raise InvalidInput("this index has ids of your own: use add_with_ids")

    def add_with_ids(self, x: ArrayLike, ids: ArrayLike) -> None:
        self.index.add(x, ids)

    def remove_ids(self, x: ArrayLike) -> int:
        gone = np.intersect1d(self.index.ids, np.asarray(x, dtype=np.int64))
        self.index.delete(gone)
        return len(gone)

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> np.ndarray:
        raise InvalidInput("ids have gaps: use reconstruct")

    def merge_from(self, other: IndexBinaryFlat, add_id: int = 0) -> None:
        self._check_partner(other)
        self.index.add(other.index.codes, other.index.ids + add_id)
        other.reset()


class IndexBinaryIVF(IndexBinaryIDMap):
    """Codes in lists, of which a search visits the `nprobe` nearest; all of them are exact."""

    def __init__(self, d: int, nlist: int) -> None:
        self.nlist, self.nprobe = nlist, 1
        super().__init__(d)

    def reset(self) -> None:
        self.index = PartitionedIndex(self.code_size, n_bits=self.d, n_lists=self.nlist)

    def add(self, x: ArrayLike) -> None:
        """Add rows; the first ones decide where lists are."""
        self.index.add(x)

    def search(self, x: ArrayLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = self.index.search(x, k, probes=min(self.nprobe, self.nlist))
        return found.distances, found.ids

    def range_search(self, x: ArrayLike, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise InvalidInput("lists have no search by radius: use IndexBinaryFlat")


def write_index_binary(index: IndexBinaryFlat, path: str | os.PathLike[str]) -> None:
    """Write our file of the index; `sghash push COLLECTION faiss:FILE` writes FAISS's."""
    index.index.save(path)


def read_index_binary(path: str | os.PathLike[str]) -> IndexBinaryFlat:
    """Read what `write_index_binary` wrote; ids with gaps come back as an `IndexBinaryIDMap`."""
    stored = HammingIndex.load(path)
    rows = np.array_equal(stored.ids, np.arange(len(stored)))
    index = (IndexBinaryFlat if rows else IndexBinaryIDMap)(stored.n_bits)
    index.index = stored
    return index
