"""LSH, SignHashing, PCAHashing and PCAReconstruction against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.baselines.lsh import LSH
from sghash.models.baselines.pca import PCAHashing
from sghash.models.baselines.sign import SignHashing
from sghash.models.quantizers.pca_reconstruction import PCAReconstruction


@pytest.fixture
def vectors(rng):
    return (rng.normal(size=(400, 9)) * np.arange(9, 0, -1) + 20).astype(np.float32)


def test_lsh_bits_are_signs_of_projections(vectors):
    model = LSH(n_bits=21, random_state=1).fit(vectors)
    expected = (vectors.astype(np.float64) - vectors.mean(axis=0)) @ model.projection_ > 0
    assert np.mean(model.transform(vectors) == expected) > 0.999
    assert 0.3 < model.transform(vectors).mean() < 0.7


def test_lsh_without_centring_is_nearly_constant_on_data_far_from_zero(vectors):
    bits = (
        LSH(n_bits=64, center=False, random_state=1).fit(vectors + 1000).transform(vectors + 1000)
    )
    assert np.mean(bits.std(axis=0) == 0) > 0.8


def test_lsh_distance_estimates_the_angle(rng):
    pair = rng.normal(size=(2, 30)).astype(np.float32)
    bits = LSH(n_bits=4096, center=False, random_state=0).fit(pair).transform(pair)
    angle = np.arccos(pair[0] @ pair[1] / np.linalg.norm(pair[0]) / np.linalg.norm(pair[1]))
    assert np.mean(bits[0] != bits[1]) == pytest.approx(angle / np.pi, abs=0.03)


@pytest.mark.parametrize("threshold", ["zero", "mean"])
def test_sign_of_coordinates(vectors, threshold):
    shifted = vectors - (vectors.mean(axis=0) if threshold == "mean" else 0)
    model = SignHashing(n_bits=9, threshold=threshold).fit(vectors)
    assert np.array_equal(model.transform(vectors), shifted > 0)
    first = SignHashing(n_bits=4, threshold=threshold).fit(vectors)
    assert np.array_equal(first.transform(vectors), shifted[:, :4] > 0)
    more = SignHashing(n_bits=40, threshold=threshold, random_state=0).fit(vectors)
    assert np.array_equal(more.transform(vectors)[:, :9], shifted > 0)
    assert more.directions_.shape == (9, 31)


def test_sign_rotation_is_a_rotation(vectors):
    model = SignHashing(n_bits=9, threshold="mean", rotate=True, random_state=0).fit(vectors)
    assert np.allclose(model.directions_.T @ model.directions_, np.eye(9), atol=1e-5)
    plain = SignHashing(n_bits=9, threshold="mean").fit(vectors)
    assert np.any(model.transform(vectors) != plain.transform(vectors))


def test_sign_refuses_another_threshold(vectors):
    with pytest.raises(InvalidInput, match="'zero', 'mean'"):
        SignHashing(threshold="median").fit(vectors)


def test_pca_bits_follow_the_variances(vectors):
    model = PCAHashing(n_bits=9).fit(vectors)
    # The columns are nearly independent with falling spread: axis k is nearly coordinate k.
    assert np.array_equal(np.abs(model.projection_).argmax(axis=0)[:3], [0, 1, 2])
    centred = vectors - vectors.mean(axis=0)
    assert np.mean(model.transform(vectors) == (centred @ model.projection_ > 0)) > 0.999
    wide = PCAHashing(n_bits=25, random_state=0).fit(vectors)
    assert np.allclose(wide.projection_ @ wide.projection_.T, np.eye(9), atol=1e-5)


def test_pca_reconstruction_is_the_best_of_its_rank(vectors):
    model = PCAReconstruction(n_components=4).fit(vectors)
    wide = vectors.astype(np.float64) - vectors.mean(axis=0)
    singular = np.linalg.svd(wide, compute_uv=False)
    error = np.square(model.decode(model.encode(vectors)) - vectors, dtype=np.float64).sum()
    assert error == pytest.approx(np.square(singular[4:]).sum(), rel=1e-4)
    assert np.array_equal(model.transform(vectors), model.encode(vectors))
    assert np.array_equal(model.inverse_transform(model.encode(vectors)[:2]).shape, (2, 9))


def test_pca_reconstruction_beyond_the_rank_is_exact(vectors):
    model = PCAReconstruction(n_components=30).fit(vectors)
    codes = model.encode(vectors)
    assert codes.shape == (400, 30) and not codes[:, 9:].any()
    assert np.allclose(model.decode(codes), vectors, atol=1e-3)


def test_pca_reconstruction_save_and_load(vectors, tmp_path):
    model = PCAReconstruction(n_components=4).fit(vectors)
    model.save(tmp_path / "model")
    again = PCAReconstruction.load(tmp_path / "model")
    assert again.fingerprint_ == model.fingerprint_
    assert np.array_equal(again.encode(vectors), model.encode(vectors))
