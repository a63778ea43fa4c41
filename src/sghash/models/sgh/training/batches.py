"""Batches of training vectors, from memory or from sources larger than memory.

Vectors leave here in the trainer's units: shifted and scaled by a `Scaling`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, read_rows
from sghash.errors import InvalidInput
from sghash.models.sgh.training.scaling import Units
from sghash.validation import Ids, Vectors

SAMPLING = ("passes", "uniform")
# One read of a source takes this many bytes: random rows one by one would be all seeking.
RUN_BYTES = 1 << 16
# Batches are drawn from a pool of runs, shuffled: neighbours in the file must not stay neighbours.
POOL_BATCHES = 20
MIN_POOL_RUNS = 16


class Batch(NamedTuple):
    """`vectors` (m, d) float32 in the trainer's units, and their numbers `rows` (m,)."""

    vectors: Vectors
    rows: Ids


class Batches(Protocol):
    """An endless supply of batches; `n_rows` is how many vectors one pass sees."""

    n_rows: int
    batch_size: int

    def draw(self, scaling: Units, rng: np.random.Generator) -> Batch:
        """Return the next batch; its memory may be used again by the next draw."""
        ...

    def take(self, n_rows: int, rng: np.random.Generator) -> Vectors:
        """Return about `n_rows` random rows, each at most once, as raw float32 (m, d)."""
        ...


class ArrayBatches:
    """Batches from an array in memory: shuffled passes, or uniform draws with replacement."""

    def __init__(
        self, vectors: NDArray[Any], rows: Ids, *, batch_size: int, sampling: str = "passes"
    ) -> None:
        self.vectors, self.rows, self.n_rows = vectors, rows, len(rows)
        self.batch_size, self.sampling = min(batch_size, len(rows)), sampling
        self._order: Ids = np.empty(0, dtype=np.int64)
        self._next = 0
        self._buffer = np.empty((self.batch_size, vectors.shape[1]), dtype=np.float32)

    def draw(self, scaling: Units, rng: np.random.Generator) -> Batch:
        """Return the next batch; its memory is used again by the next draw."""
        rows = self._draw_rows(rng)
        scaling.gather(self.vectors, rows, self._buffer)
        return Batch(self._buffer, rows)

    def take(self, n_rows: int, rng: np.random.Generator) -> Vectors:
        """Return `n_rows` random rows, or all if there are fewer, as raw float32 (m, d)."""
        rows = self.rows
        if n_rows < self.n_rows:
            rows = np.sort(rng.choice(rows, size=n_rows, replace=False))
        return self.vectors[rows].astype(np.float32, copy=False)

    def _draw_rows(self, rng: np.random.Generator) -> Ids:
        if self.sampling == "uniform":
            return self.rows[rng.integers(self.n_rows, size=self.batch_size)]
        stop = self._next + self.batch_size
        if stop > len(self._order):
            self._order, self._next = rng.permutation(self.rows), 0
            stop = self.batch_size
        chosen = self._order[self._next : stop]
        self._next = stop
        return chosen


class SourceBatches:
    """Batches from a source beyond memory: random runs of rows, pooled and shuffled."""

    def __init__(self, source: VectorSource, runs: Ids, *, batch_size: int) -> None:
        self.source, self.runs = source, runs
        self.run_rows = rows_per_run(source)
        n = source.shape[0]
        self.n_rows = int(
            np.minimum((runs + 1) * self.run_rows, n).sum() - (runs * self.run_rows).sum()
        )
        self.batch_size = min(batch_size, self.n_rows)
        self._runs: Ids = np.empty(0, dtype=np.int64)
        self._pool = np.empty((0, source.shape[1]), dtype=np.float32)
        self._pool_rows: Ids = np.empty(0, dtype=np.int64)

    def draw(self, scaling: Units, rng: np.random.Generator) -> Batch:
        """Return the next batch."""
        while len(self._pool) < self.batch_size:
            self._refill(rng)
        rows, self._pool_rows = np.split(self._pool_rows, [self.batch_size])
        vectors, self._pool = np.split(self._pool, [self.batch_size])
        return Batch(scaling.apply(vectors), rows)

    def take(self, n_rows: int, rng: np.random.Generator) -> Vectors:
        """Return `n_rows` rows of random runs, or all if there are fewer, as raw float32 (m, d)."""
        n_runs = max(MIN_POOL_RUNS, -(-n_rows // self.run_rows))
        runs = self.runs
        if n_runs < len(runs):
            runs = rng.choice(runs, size=n_runs, replace=False)
        vectors, _ = read_runs(self.source, runs, self.run_rows)
        return vectors[rng.permutation(len(vectors))[:n_rows]] if len(vectors) > n_rows else vectors

    def _refill(self, rng: np.random.Generator) -> None:
        wanted = min(POOL_BATCHES * self.batch_size, self.n_rows)
        n_runs = max(MIN_POOL_RUNS, -(-wanted // self.run_rows))
        if not len(self._runs):
            self._runs = rng.permutation(self.runs)
        chosen, self._runs = np.split(self._runs, [n_runs])
        vectors, rows = read_runs(self.source, chosen, self.run_rows)
        vectors = np.concatenate([self._pool, vectors])
        rows = np.concatenate([self._pool_rows, rows])
        order = rng.permutation(len(rows))
        self._pool, self._pool_rows = vectors[order], rows[order]


class Reservoir:
    """A uniform random sample of all rows seen so far, of bounded size."""

    def __init__(self, n_rows: int, width: int) -> None:
        self.rows = np.empty((0, width), dtype=np.float32)
        self.n_rows, self.n_seen = n_rows, 0

    def add(self, batches: Batches, rng: np.random.Generator) -> None:
        """Update the reservoir sample with the rows of `batches`."""
        n_free = max(0, self.n_rows - len(self.rows))
        piece = batches.take(self.n_rows, rng)
        piece = piece[rng.permutation(len(piece))]
        self.rows = np.concatenate([self.rows, piece[:n_free]])
        rest, n_rest = piece[n_free:], batches.n_rows - min(n_free, len(piece))
        self.n_seen += batches.n_rows
        if n_rest > 0:
            n_new = min(len(rest), int(rng.binomial(self.n_rows, n_rest / self.n_seen)))
            places = rng.choice(len(self.rows), size=n_new, replace=False)
            self.rows[places] = rest[:n_new]


def rows_per_run(source: VectorSource) -> int:
    """Rows that one read of a source takes."""
    return max(1, RUN_BYTES // max(1, source.shape[1] * source.dtype.itemsize))


def read_runs(source: VectorSource, runs: Ids, run_rows: int) -> tuple[Vectors, Ids]:
    """Read whole runs as finite float32 vectors (m, d), with their row numbers (m,)."""
    n = source.shape[0]
    blocks, rows = [], []
    for run in np.sort(runs):
        start, stop = int(run) * run_rows, min((int(run) + 1) * run_rows, n)
        with np.errstate(over="ignore", invalid="ignore"):
            block = np.asarray(read_rows(source, start, stop)).astype(np.float32)
            total = block.sum(dtype=np.float64)
        if not np.isfinite(total):
            row = start + int(np.argmin(np.isfinite(block).all(axis=1)))
            raise InvalidInput(
                f"row {row} of the vectors contains NaN or infinite values (in float32): "
                "clean or rescale such rows first"
            )
        blocks.append(block)
        rows.append(np.arange(start, stop, dtype=np.int64))
    return np.concatenate(blocks), np.concatenate(rows)


def make_batches(
    vectors: VectorSource | NDArray[Any],
    *,
    batch_size: int,
    sampling: str,
    held_out: float,
    rng: np.random.Generator,
) -> tuple[Batches, Batches | None]:
    """Return batches of training rows and, if `held_out` > 0, of that share of rows."""
    if isinstance(vectors, np.ndarray) and not isinstance(vectors, np.memmap):
        training, rest = _split(np.arange(len(vectors), dtype=np.int64), held_out, rng)
        parts = [
            ArrayBatches(vectors, rows, batch_size=batch_size, sampling=sampling)
            for rows in (training, rest)
            if len(rows)
        ]
        return parts[0], parts[1] if held_out else None
    source = MappedArray(vectors) if isinstance(vectors, np.ndarray) else vectors
    n_runs = -(-source.shape[0] // rows_per_run(source))
    training, rest = _split(np.arange(n_runs, dtype=np.int64), held_out, rng)
    first = SourceBatches(source, training, batch_size=batch_size)
    return first, SourceBatches(source, rest, batch_size=batch_size) if held_out else None


class MappedArray:
    """A memory map as a `VectorSource`."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their width."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return self.array.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` - 1, as stored."""
        return np.asarray(self.array[start:stop])


def _split(items: Ids, share: float, rng: np.random.Generator) -> tuple[Ids, Ids]:
    if not share:
        return items, items[:0]
    if len(items) < 2:
        raise InvalidInput(
            "early stopping holds some vectors out, and there are too few: give more vectors, "
            "or patience=None"
        )
    n_held_out = min(len(items) - 1, max(1, round(share * len(items))))
    order = rng.permutation(items)
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
