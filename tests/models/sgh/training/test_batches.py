"""Batches from memory and from sources: every row of a pass once, in the trainer's units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh.training.batches import (
    ArrayBatches,
    SourceBatches,
    make_batches,
    rows_per_run,
)
from sghash.models.sgh.training.scaling import Scaling, unit_rows


class Source:
    """Rows that know their number, read in ranges; counts the reads."""

    def __init__(self, n: int, width: int = 3, dtype: str = "f4") -> None:
        self.shape, self.dtype, self.n_reads = (n, width), np.dtype(dtype), 0
        self.bad_row = -1

    def read(self, start: int, stop: int) -> np.ndarray:
        self.n_reads += 1
        block = np.repeat(np.arange(start, stop)[:, None], self.shape[1], axis=1)
        block = block.astype(self.dtype)
        block[np.arange(start, stop) == self.bad_row] = np.nan
        return block


PLAIN = Scaling(np.zeros(3, dtype=np.float32), 1.0, False)


def test_a_pass_sees_every_row_once(rng: np.random.Generator) -> None:
    vectors = np.arange(30, dtype=np.float32).reshape(10, 3)
    batches = ArrayBatches(vectors, np.arange(10), batch_size=5)
    first, second = (batches.draw(PLAIN, rng) for _ in range(2))
    rows = np.concatenate([first.rows, second.rows])
    assert sorted(rows) == list(range(10))
    np.testing.assert_array_equal(second.vectors, vectors[second.rows])


def test_uniform_draws_repeat_rows(rng: np.random.Generator) -> None:
    vectors = np.zeros((10, 3), dtype=np.float32)
    batches = ArrayBatches(vectors, np.arange(10), batch_size=10, sampling="uniform")
    seen = [set(batches.draw(PLAIN, rng).rows) for _ in range(20)]
    assert any(len(rows) < 10 for rows in seen) and set().union(*seen) == set(range(10))


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "f2", "f4"])
def test_batches_come_in_the_trainers_units(rng: np.random.Generator, dtype: str) -> None:
    vectors = rng.integers(0, 100, (50, 3)).astype(dtype)
    scaling = Scaling.of(vectors.astype(np.float32), cosine=False, standardize=True)
    batch = ArrayBatches(vectors, np.arange(50), batch_size=50).draw(scaling, rng)
    assert batch.vectors.dtype == np.float32
    np.testing.assert_allclose(batch.vectors.mean(axis=0), 0, atol=1e-6)
    assert np.square(batch.vectors).mean() == pytest.approx(1, rel=1e-5)
    twin = (vectors[batch.rows].astype(np.float64) - scaling.shift) / scaling.unit
    np.testing.assert_allclose(batch.vectors, twin, atol=1e-6)


def test_cosine_takes_directions(rng: np.random.Generator) -> None:
    vectors = rng.standard_normal((40, 3)).astype(np.float32)
    vectors[7] = 0
    scaling = Scaling.of(vectors, cosine=True, standardize=False)
    batch = ArrayBatches(vectors, np.arange(40), batch_size=40).draw(scaling, rng)
    lengths = np.linalg.norm(batch.vectors, axis=1)
    np.testing.assert_allclose(lengths[batch.rows != 7], 1, rtol=1e-6)
    assert lengths[batch.rows == 7] == 0
    np.testing.assert_array_equal(unit_rows(vectors)[7], 0)


@pytest.mark.parametrize("n", [1, 7, 16_384, 40_000, 300_000])
def test_a_source_is_seen_once_per_pass(rng: np.random.Generator, n: int) -> None:
    source = Source(n)
    batches, held_out = make_batches(source, batch_size=500, sampling="passes", held_out=0, rng=rng)
    assert isinstance(batches, SourceBatches) and held_out is None and batches.n_rows == n
    seen = np.zeros(n, dtype=int)
    for _ in range(n // batches.batch_size):
        batch = batches.draw(PLAIN, rng)
        assert len(batch.rows) == batches.batch_size
        np.testing.assert_array_equal(batch.vectors[:, 0], batch.rows.astype(np.float32))
        seen[batch.rows] += 1
    assert seen.max() <= 2 and (seen > 0).mean() > 0.9
    # Few reads: runs of rows, not rows.
    assert source.n_reads <= 2 * (-(-n // rows_per_run(source)))


def test_neighbours_in_a_file_do_not_stay_neighbours(rng: np.random.Generator) -> None:
    batches, _ = make_batches(
        Source(1_000_000, 128), batch_size=500, sampling="passes", held_out=0, rng=rng
    )
    scaling = Scaling(np.zeros(128, np.float32), 1.0, False)
    rows = np.sort(batches.draw(scaling, rng).rows)
    assert (np.diff(rows) == 1).mean() < 0.1
    assert np.ptp(rows) > 800_000


def test_memory_maps_are_sources(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "vectors.npy"
    np.save(path, rng.standard_normal((1000, 3)).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    batches, _ = make_batches(mapped, batch_size=100, sampling="passes", held_out=0, rng=rng)
    batch = batches.draw(PLAIN, rng)
    np.testing.assert_array_equal(batch.vectors, mapped[batch.rows])


@pytest.mark.parametrize("beyond_memory", [False, True])
def test_rows_kept_apart_are_never_trained_on(
    rng: np.random.Generator, beyond_memory: bool
) -> None:
    n = 200_000 if beyond_memory else 100
    vectors = Source(n) if beyond_memory else np.arange(300, dtype=np.float32).reshape(100, 3)
    training, held_out = make_batches(
        vectors, batch_size=50, sampling="passes", held_out=0.2, rng=rng
    )
    assert held_out is not None and training.n_rows + held_out.n_rows == n
    assert held_out.n_rows == pytest.approx(0.2 * n, rel=0.2)
    kept = {float(row[0]) for row in held_out.take(n, rng)}
    for _ in range(2 * n // 50):
        assert kept.isdisjoint(training.draw(PLAIN, rng).vectors[:, 0].tolist())
    with pytest.raises(InvalidInput, match="patience=None"):
        make_batches(
            np.zeros((1, 3), np.float32), batch_size=5, sampling="passes", held_out=0.5, rng=rng
        )


def test_a_bad_row_of_a_source_is_named(rng: np.random.Generator) -> None:
    source = Source(100)
    source.bad_row = 42
    batches, _ = make_batches(source, batch_size=10, sampling="passes", held_out=0, rng=rng)
    with pytest.raises(InvalidInput, match="row 42 of the vectors contains NaN"):
        batches.draw(PLAIN, rng)
