"""Tables of bytes: descent against brute force, least squares and distances."""

from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash.errors import InvalidDtype, InvalidInput
from sghash.models.quantizers.generative import (
    GenerativeQuantizer,
    decode_tables,
    fit_tables,
    improve_codes,
)


@pytest.fixture
def vectors(rng):
    mixing = rng.normal(size=(12, 12)) * np.linspace(2, 0.2, 12)
    return (rng.normal(size=(3000, 12)) @ mixing + 3).astype(np.float32)


def cross_of(tables):
    flat = tables.reshape(-1, tables.shape[2])
    return flat @ flat.T


def test_no_single_byte_could_be_better(rng):
    tables = rng.normal(size=(3, 256, 5)).astype(np.float32)
    vectors = rng.normal(size=(40, 5)).astype(np.float32)
    start = rng.integers(256, size=(40, 3)).astype(np.uint8)
    codes = improve_codes(vectors, start, tables=tables, cross=cross_of(tables), n_sweeps=100)

    def errors(of_codes):
        return np.square(vectors - decode_tables(of_codes, tables)).sum(axis=1)

    assert (errors(codes) <= errors(start) + 1e-4).all()
    for part in range(3):
        for value in range(256):
            other = codes.copy()
            other[:, part] = value
            assert (errors(other) >= errors(codes) - 1e-4).all()


def test_tables_are_those_of_least_squares(rng):
    codes = rng.integers(256, size=(900, 2)).astype(np.uint8)
    vectors = rng.normal(size=(900, 3)).astype(np.float32)
    tables = fit_tables(vectors, codes)
    # The slow twin: indicator columns, and ridge regression by an augmented system.
    columns = np.zeros((900, 512))
    for part in range(2):
        columns[np.arange(900), 256 * part + codes[:, part].astype(int)] = 1
    tall = np.vstack([columns, 2.0 * np.eye(512)])
    slow = np.linalg.lstsq(tall, np.vstack([vectors, np.zeros((512, 3))]), rcond=None)[0]
    np.testing.assert_allclose(tables.reshape(512, 3), slow, atol=1e-4)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_tables_add_up_to_the_distance_to_the_decoded_code(vectors, metric):
    model = GenerativeQuantizer(n_bytes=3, metric=metric, n_rounds=2, random_state=0).fit(vectors)
    codes, queries = model.encode(vectors[:200]), vectors[300:310]
    assert codes.shape == (200, 3) and codes.dtype == np.uint8
    tables, offsets, _ = model.query_tables(queries)
    assert tables.shape == (10, 3, 256) and model.code_layout().n_bytes == 3
    summed = tables[:, np.arange(3), codes].sum(axis=2) + offsets[:, None]
    decoded = model.decode(codes)
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    if metric == "ip":
        np.testing.assert_allclose(summed, -(queries @ decoded.T), rtol=1e-4, atol=1e-3)
    else:
        # The length is rounded to one of 256 steps; 1 - cosine is half of the squared distance.
        share = 1 if metric == "l2" else 0.5
        expected = share * np.square(queries[:, None] - decoded[None]).sum(axis=2)
        np.testing.assert_allclose(summed, expected, atol=share * 0.51 * model.term_step_ + 1e-2)
    if metric == "l2":
        tables, offsets, _ = model.query_tables(queries, metric="ip")
        summed = tables[:, np.arange(3), codes].sum(axis=2) + offsets[:, None]
        np.testing.assert_allclose(summed, -(queries @ decoded.T), rtol=1e-4, atol=1e-3)
    else:
        with pytest.raises(InvalidInput, match="fit one with metric='l2'"):
            model.query_tables(queries, metric="l2")


def test_tables_and_chosen_bytes_beat_the_linear_decoder_of_sharpened_codes(vectors):
    ours = GenerativeQuantizer(n_bytes=2, metric="ip", random_state=0).fit(vectors)
    linear = sghash.SGH(n_bits=16, goal="reconstruction", random_state=0).fit(vectors)
    error = np.square(vectors - ours.decode(ours.encode(vectors))).sum(axis=1).mean()
    assert error < 0.85 * linear.reconstruction_error(vectors, sweeps=4)


def test_saved_loaded_and_the_same_for_a_seed(vectors, tmp_path):
    models = [GenerativeQuantizer(n_bytes=2, n_rounds=1, random_state=5) for _ in range(2)]
    for model in models:
        model.fit(vectors[:600])
    models[0].save(tmp_path / "model")
    loaded = sghash.load_model(tmp_path / "model")
    assert loaded.fingerprint_ == models[1].fingerprint_
    np.testing.assert_array_equal(loaded.encode(vectors), models[0].encode(vectors))


def test_what_cannot_be_is_refused(vectors):
    for n_bytes in (0, 1, 33, 2.5, True):
        with pytest.raises(InvalidInput, match="n_bytes"):
            GenerativeQuantizer(n_bytes=n_bytes).fit(vectors)
    with pytest.raises(InvalidInput, match="metric"):
        GenerativeQuantizer(metric="l1").fit(vectors)
    model = GenerativeQuantizer(n_bytes=2, n_rounds=1, random_state=0).fit(vectors[:500])
    with pytest.raises(InvalidDtype, match="codes must be uint8"):
        model.decode(np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match=r"shape \(n, 2\)"):
        model.decode(np.zeros((3, 5), dtype=np.uint8))
