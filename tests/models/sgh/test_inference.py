"""What a fitted `SGH` gives: attributes, codes, probabilities, draws."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh import SGH


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


class Source:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop]


def test_attributes_have_the_stated_shapes_and_units(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    assert model.encoder_weights_.shape == (20, 12) and model.encoder_bias_.shape == (12,)
    assert model.decoder_weights_.shape == (12, 20) and model.decoder_bias_.shape == (20,)
    assert model.prior_logits_.shape == (12,)
    bits = clusters @ model.encoder_weights_ + model.encoder_bias_ > 0
    np.testing.assert_array_equal(np.packbits(bits, axis=1), model.encode(clusters))
    np.testing.assert_array_equal(model.transform(clusters), bits)
    back = (2.0 * bits - 1) @ model.decoder_weights_ + model.decoder_bias_
    np.testing.assert_allclose(model.inverse_transform(bits), back, rtol=1e-5, atol=1e-4)
    error = np.square(clusters - back).sum(axis=1).mean()
    assert model.reconstruction_error(clusters) == pytest.approx(error, rel=1e-4)
    assert error / 20 < model.noise_variance_ < clusters.var(axis=0).mean()
    assert list(model.get_feature_names_out()[:2]) == ["bit0", "bit1"]


def test_codes_do_not_depend_on_the_units(clusters: np.ndarray) -> None:
    plain, scaled = quick().fit(clusters), quick().fit(clusters * 64)
    np.testing.assert_array_equal(plain.encode(clusters), scaled.encode(clusters * 64))
    np.testing.assert_allclose(scaled.decoder_weights_, plain.decoder_weights_ * 64, rtol=1e-5)
    shifted = quick().fit(clusters - 1000)
    nothing = float(clusters.var(axis=0).sum())
    assert shifted.reconstruction_error(clusters - 1000) < 0.3 * nothing


@pytest.mark.parametrize("sweeps", [0, 2])
def test_many_rows_get_the_codes_of_few(sweeps: int, clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    many = np.tile(clusters, (12, 1))
    few = np.concatenate(
        [model.encode(clusters[i : i + 500], sweeps=sweeps) for i in range(0, 3000, 500)]
    )
    for form in (many, Source(many)):
        codes = model.encode(form, sweeps=sweeps)
        # Products of other shapes may round otherwise: next to never does that turn a bit.
        assert (codes.reshape(12, 3000, 2) == few).all(axis=2).mean() > 0.999
    for n in (1, 7):  # so few take a way of their own
        one_by_one = [model.encode(clusters[i : i + n], sweeps=sweeps) for i in range(0, 300, n)]
        assert (np.concatenate(one_by_one)[:300] == few[:300]).all(axis=1).mean() > 0.99
    spoilt = many.copy()
    spoilt[-1, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.encode(spoilt, sweeps=sweeps)


def test_cosine_sees_directions_only(clusters: np.ndarray, rng: np.random.Generator) -> None:
    model = quick(metric="cosine").fit(clusters)
    stretched = clusters * rng.uniform(0.1, 10, (len(clusters), 1)).astype(np.float32)
    same = model.transform(stretched) == model.transform(clusters)
    assert same.mean() > 0.9999
    assert model.reconstruction_error(clusters) < 1


def test_sampling(clusters: np.ndarray) -> None:
    model = quick(kl_weight=1.0).fit(clusters)
    p = model.bit_probabilities(clusters[:200])
    assert p.shape == (200, 12) and p.dtype == np.float32
    np.testing.assert_array_equal(p > 0.5, model.transform(clusters[:200]))
    draws = np.mean(
        [
            np.unpackbits(model.sample_codes(clusters[:200], seed), axis=1, count=12)
            for seed in range(200)
        ],
        axis=0,
    )
    assert np.abs(draws - p).max() < 0.2 and np.abs(draws - p).mean() < 0.03
    vectors = model.sample(2000, random_state=1)
    assert vectors.shape == (2000, 20)
    np.testing.assert_allclose(vectors.mean(axis=0), clusters.mean(axis=0), atol=0.7)
    np.testing.assert_array_equal(vectors, model.sample(2000, random_state=1))
    with pytest.raises(InvalidInput, match="n must be a whole number"):
        model.sample(0)


def test_importing_the_model_loads_no_compiler() -> None:
    script = "import sys, sghash.models.sgh; print('numba' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
