"""Fixtures of the SGH tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sghash.models.sgh import SGH

MakeModel = Callable[..., SGH]


@pytest.fixture
def make_model(rng: np.random.Generator) -> MakeModel:
    """Models with random double-precision parameters, away from any optimum."""

    def make(coding: str, *, width: int = 5, n_bits: int = 4, hidden: int = 0) -> SGH:
        model = SGH(n_bits=n_bits, coding=coding, hidden=hidden)
        model.n_features_in_ = width
        model.encoder_weights_ = rng.standard_normal((width, n_bits))
        model.encoder_bias_ = rng.standard_normal(n_bits)
        model.decoder_weights_ = rng.standard_normal((n_bits, width))
        model.decoder_bias_ = rng.standard_normal(width)
        model.noise_variance_ = 0.7
        model.prior_logits_ = rng.standard_normal(n_bits)
        if hidden:
            model.hidden_weights_ = rng.standard_normal((width, hidden))
            model.hidden_bias_ = rng.standard_normal(hidden)
            model.hidden_output_ = rng.standard_normal((hidden, n_bits))
        return model

    return make


@pytest.fixture
def clusters(rng: np.random.Generator) -> np.ndarray:
    """Vectors (3000, 20) float32 with structure: sums of a few random directions."""
    parts = rng.standard_normal((8, 20)) * np.linspace(3, 1, 8)[:, None]
    signs = np.sign(rng.standard_normal((3000, 8)))
    noise = 0.3 * rng.standard_normal((3000, 20))
    return (signs @ parts + noise + 5).astype(np.float32)
