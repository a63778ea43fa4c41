"""Ground truth: equal to the plain computation, aware of ties, kept by content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sghash.data import convert
from sghash.errors import InvalidInput
from sghash.evaluation import ground_truth, truth as truth_module, truth_folder


def plain(vectors: np.ndarray, queries: np.ndarray, metric: str) -> np.ndarray:
    """All distances in double precision, rounded as the kernel rounds them."""
    x, q = vectors.astype(np.float64), queries.astype(np.float64)
    if metric == "l2":
        far = ((q[:, None] - x[None]) ** 2).sum(axis=2)
    else:
        far = -(q @ x.T)
        if metric == "cosine":
            far = 1 + far / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(x, axis=1)
    return far.astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_equal_to_the_plain_computation(rng: np.random.Generator, metric: str) -> None:
    vectors = rng.standard_normal((400, 11)).astype(np.float32)
    queries = rng.standard_normal((30, 11)).astype(np.float32)
    found = ground_truth(vectors, queries, 10, metric=metric)
    expected = np.argsort(plain(vectors, queries, metric), axis=1, kind="stable")[:, :10]
    assert np.array_equal(found.ids, expected)
    assert (np.diff(found.distances, axis=1) >= 0).all()


@pytest.mark.parametrize("n_values", [2, 4])
def test_all_rows_as_near_as_the_kth_are_there(rng: np.random.Generator, n_values: int) -> None:
    vectors = rng.integers(0, n_values, (500, 4)).astype(np.float32)
    queries = rng.integers(0, n_values, (20, 4)).astype(np.float32)
    found = ground_truth(vectors, queries, 7)
    far = plain(vectors, queries, "l2")
    assert found.ids.shape[1] > 7, "this data has ties"
    for row in range(20):
        limit = np.sort(far[row])[6]
        held = found.ids[row][found.ids[row] >= 0]
        assert sorted(held.tolist()) == np.flatnonzero(far[row] <= limit).tolist()
        assert np.isinf(found.distances[row][len(held) :]).all()


def test_ties_without_end_are_cut(rng: np.random.Generator) -> None:
    vectors = np.ones((5000, 3), np.float32)
    found = ground_truth(vectors, vectors[:2], 3)
    assert 3 + 1024 <= found.ids.shape[1] < 5000


def test_kept_by_content(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = rng.standard_normal((100, 5)).astype(np.float32)
    queries = vectors[:4] + 0.1
    calls = []
    real = truth_module.exact_neighbors

    def counted(*args: object, **options: object) -> object:
        calls.append(options["metric"])
        return real(*args, **options)

    monkeypatch.setattr(truth_module, "exact_neighbors", counted)
    first = ground_truth(vectors, queries, 5, cache=tmp_path / "truth")
    assert len(calls) == 1
    # The same numbers from a file are the same content.
    source = convert(vectors, tmp_path / "v.fbin")
    for same in (vectors, vectors.copy(), source):
        again = ground_truth(same, queries, 5, cache=tmp_path / "truth")
        assert np.array_equal(again.ids, first.ids)
        assert np.array_equal(again.distances, first.distances)
    assert len(calls) == 1
    changed = vectors.copy()
    changed[0, 0] += 1
    ground_truth(changed, queries, 5, cache=tmp_path / "truth")
    ground_truth(vectors, queries, 6, cache=tmp_path / "truth")
    ground_truth(vectors, queries, 5, cache=tmp_path / "truth", metric="ip")
    ground_truth(vectors, queries[:3], 5, cache=tmp_path / "truth")
    assert len(calls) == 5


def test_a_damaged_cache_is_computed_again(
    tmp_path: Path, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = rng.standard_normal((50, 3)).astype(np.float32)
    first = ground_truth(vectors, vectors[:2], 4, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for damaged in (b"", content[:100], b"x" * 300):
        file.write_bytes(damaged)
        again = ground_truth(vectors, vectors[:2], 4, cache=tmp_path)
        assert np.array_equal(again.ids, first.ids)
        assert "computing it again" in caplog.text
        assert file.read_bytes() == content
    np.savez(file, distances=np.ones((1, 1)), ids=np.ones((1, 1)))
    assert np.array_equal(ground_truth(vectors, vectors[:2], 4, cache=tmp_path).ids, first.ids)


def test_what_cannot_be_is_refused(rng: np.random.Generator) -> None:
    vectors = rng.standard_normal((5, 3))
    with pytest.raises(InvalidInput, match="only 5 vectors"):
        ground_truth(vectors, vectors, 6)
    with pytest.raises(InvalidInput, match="metric"):
        ground_truth(vectors, vectors, 1, metric="hamming")
    with pytest.raises(InvalidInput, match="expected 3"):
        ground_truth(vectors, vectors[:, :2], 1)


def test_usual_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGHASH_CACHE", "/somewhere")
    assert truth_folder() == Path("/somewhere/ground_truth")
    monkeypatch.delenv("SGHASH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert truth_folder() == Path("/cache/sghash/ground_truth")
