"""Product quantization: tables, reconstruction, OPQ, and FAISS as judge."""

from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash.errors import InvalidDtype, InvalidInput
from sghash.index import TableIndex
from sghash.kernels import exact_neighbors
from sghash.kernels.tables.bytes import byte_table_neighbors
from sghash.models.quantizers.product import ProductQuantizer


@pytest.fixture
def vectors(rng):
    mixing = rng.normal(size=(12, 12)) * np.linspace(2, 0.2, 12)
    return (rng.normal(size=(3000, 12)) @ mixing + 3).astype(np.float32)


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_tables_add_up_to_the_distance_to_the_decoded_code(vectors, rotate, metric):
    model = ProductQuantizer(
        n_parts=5, n_centroids=16, rotate=rotate, n_rotations=3, random_state=0
    ).fit(vectors)
    codes, queries = model.encode(vectors[:300]), vectors[300:310]
    assert codes.shape == (300, 5) and codes.dtype == np.uint8 and codes.max() < 16
    tables, offsets, _ = model.query_tables(queries, metric=metric)
    assert tables.shape == (10, 5, 256)
    summed = tables[:, np.arange(5), codes].sum(axis=2) + offsets[:, None]
    decoded = model.decode(codes).astype(np.float64)
    if metric == "l2":
        expected = np.square(queries[:, None] - decoded[None]).sum(axis=2)
    elif metric == "ip":
        expected = -(queries @ decoded.T)
    else:
        expected = 1 - queries / np.linalg.norm(queries, axis=1, keepdims=True) @ decoded.T
    assert np.allclose(summed, expected, rtol=1e-4, atol=1e-3)


def test_every_part_takes_its_nearest_centroid(vectors):
    model = ProductQuantizer(n_parts=5, n_centroids=16, random_state=0).fit(vectors)
    assert model.part_widths_.tolist() == [3, 3, 2, 2, 2]
    codes, at = model.encode(vectors[:200]), 0
    for part, width in enumerate(model.part_widths_):
        columns = vectors[:200, at : at + width]
        gaps = columns[:, None] - model.centroids_[part, :, :width]
        assert np.mean(np.square(gaps).sum(axis=2).argmin(axis=1) == codes[:, part]) > 0.99
        at += width


def test_more_centroids_and_a_rotation_lower_the_error(vectors):
    def error(**options):
        model = ProductQuantizer(n_parts=4, random_state=0, **options).fit(vectors)
        return np.square(model.decode(model.encode(vectors)) - vectors).sum(axis=1).mean()

    coarse, fine = error(n_centroids=16), error(n_centroids=64)
    assert fine < 0.8 * coarse
    assert error(n_centroids=16, rotate=True) < 0.95 * coarse


def test_rotation_is_one(vectors):
    model = ProductQuantizer(
        n_parts=4, n_centroids=8, rotate=True, n_rotations=5, random_state=0
    ).fit(vectors)
    assert np.allclose(model.rotation_.T @ model.rotation_, np.eye(12), atol=1e-4)


def test_rotation_of_data_without_full_rank(vectors):
    vectors[:, 3] = vectors[:, 5] = 1.0
    model = ProductQuantizer(
        n_parts=3, n_centroids=8, rotate=True, n_rotations=2, random_state=0
    ).fit(vectors)
    assert np.allclose(model.rotation_.T @ model.rotation_, np.eye(12), atol=1e-4)


def test_small_data_and_more_parts_than_columns(vectors):
    model = ProductQuantizer(n_parts=20, random_state=0).fit(vectors[:5])
    assert model.centroids_.shape == (20, 5, 1)
    assert np.allclose(model.decode(model.encode(vectors[:5])), vectors[:5], atol=1e-4)


def test_same_seed_same_codes_and_save_and_load(vectors, tmp_path):
    model = ProductQuantizer(n_parts=4, n_centroids=16, rotate=True, n_rotations=2, random_state=1)
    first = model.fit(vectors).fingerprint_
    assert model.fit(vectors).fingerprint_ == first
    model.save(tmp_path / "model")
    again = sghash.load_model(tmp_path / "model")
    assert isinstance(again, ProductQuantizer) and again.fingerprint_ == first
    assert np.array_equal(again.encode(vectors), model.encode(vectors))


def test_wrong_codes_and_options_are_refused(vectors):
    model = ProductQuantizer(n_parts=4, n_centroids=16, random_state=0).fit(vectors)
    with pytest.raises(InvalidDtype, match="uint8"):
        model.decode(np.zeros((2, 4), dtype=np.int64))
    with pytest.raises(InvalidInput, match=r"\(n, 4\)"):
        model.decode(np.zeros((2, 5), dtype=np.uint8))
    with pytest.raises(InvalidInput, match="centroid 99"):
        model.decode(np.full((2, 4), 99, dtype=np.uint8))
    with pytest.raises(InvalidInput, match="metric"):
        model.query_tables(vectors[:2], metric="hamming")
    for options in (
        {"n_parts": 0}, {"n_parts": 2.5}, {"n_centroids": 257}, {"n_centroids": "many"},
        {"n_iterations": -1}, {"n_rotations": None}, {"engine": "cuda"},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=next(iter(options))):
            ProductQuantizer(**options).fit(vectors)
    pytest.importorskip("faiss")
    with pytest.raises(InvalidInput, match="engine='numpy'"):
        ProductQuantizer(n_parts=5, engine="faiss").fit(vectors)


@pytest.mark.parametrize("k", [1, 7, 200, 400])
def test_table_search_equals_sorting_everything(rng, k):
    """Small whole numbers in the tables, so that ties are everywhere."""
    codes = rng.integers(0, 5, size=(300, 3)).astype(np.uint8)
    tables = rng.integers(0, 4, size=(11, 3, 5)).astype(np.float32)
    found = byte_table_neighbors(codes, tables, k, threads=2)
    every = tables[:, np.arange(3), codes].sum(axis=2)
    ids = np.broadcast_to(np.arange(300), every.shape)
    order = np.lexsort((ids, every), axis=1)[:, :k]
    width = order.shape[1]
    assert np.array_equal(found.ids[:, :width], order)
    assert np.array_equal(found.distances[:, :width], np.take_along_axis(every, order, axis=1))
    assert np.all(found.ids[:, width:] == -1) and np.all(np.isinf(found.distances[:, width:]))


def recalls(base, queries, truth, **options) -> float:
    model = ProductQuantizer(**options).fit(base)
    index = TableIndex.for_model(model)
    index.add(model.encode(base))
    found = index.search(model.query_tables(queries), 100).ids
    return float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, found, strict=True)]))


@pytest.mark.slow
def test_recall_is_that_of_faiss_on_sift(data_folder):
    """Mean over seeds within 1 %, each training by FAISS's own k-means and by ours."""
    pytest.importorskip("faiss")
    with np.load(data_folder / "sift_photos_500k.npz") as archive:
        base, queries = archive["base"][:100_000], archive["query"][:500]
    base, queries = base.astype(np.float32), queries.astype(np.float32)
    truth = exact_neighbors(base, queries, 10).ids
    means = {
        engine: np.mean(
            [recalls(base, queries, truth, engine=engine, random_state=s) for s in range(3)]
        )
        for engine in ("numpy", "faiss")
    }
    assert means["numpy"] > 0.99 * means["faiss"]


@pytest.mark.parametrize("engine", ["numpy", pytest.param("faiss", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rotate", [False, True])
def test_vectors_far_from_zero_lose_no_more_than_vectors_around_it(rng, rotate, engine):
    """A mean 10,000 times the spread; OPQ has something to gain, since columns belong together."""
    if engine == "faiss":
        pytest.importorskip("faiss")
    near = (rng.standard_normal((4000, 4)) @ rng.standard_normal((4, 8))).astype(np.float32)
    errors = []
    for offset in (0, 10_000):
        vectors = near + np.float32(offset)
        model = ProductQuantizer(
            4, n_centroids=16, rotate=rotate, engine=engine, n_rotations=10, random_state=0
        ).fit(vectors)
        codes = model.encode(vectors)
        decoded = model.decode(codes).astype(np.float64)
        errors.append(np.square(decoded - vectors).sum(axis=1).mean())
        # Every code is the nearest in its first part, as far as float32 can tell.
        others = codes[:200].copy()
        for other in range(16):
            others[:, 0] = other
            away = np.square(model.decode(others) - vectors[:200].astype(np.float64)).sum(axis=1)
            nearest = np.square(decoded - vectors)[:200].sum(axis=1)
            assert (away > nearest - 0.05 - 0.02 * nearest).all()
    assert errors[0] < 0.3 * np.square(near - near.mean(axis=0)).sum(axis=1).mean()
    assert errors[1] < 1.1 * errors[0]
