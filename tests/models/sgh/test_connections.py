"""What the paper says its model has in common with others, and what reconstruction bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sghash import ITQ
from sghash.models.sgh import SGH, objective

RHO2 = 0.5


def deterministic(coding: str, weights: np.ndarray, bias: np.ndarray, U: np.ndarray) -> SGH:
    """A model whose bits are as good as certain: q is a point mass."""
    model = SGH(n_bits=U.shape[0], coding=coding)
    model.n_features_in_ = U.shape[1]
    model.encoder_weights_, model.encoder_bias_ = 1e6 * weights, 1e6 * bias
    model.decoder_weights_, model.decoder_bias_ = U, np.zeros(U.shape[1])
    model.noise_variance_, model.prior_logits_ = RHO2, np.zeros(U.shape[0])
    return model


def constants(width: int, n_bits: int) -> float:
    """Nats that depend on neither code nor vector: the density's norm, and n_bits certain bits."""
    return 0.5 * width * np.log(2 * np.pi * RHO2) + n_bits * np.log(2)


def test_iterative_quantization_is_a_special_case(rng: np.random.Generator) -> None:
    X = rng.standard_normal((80, 10)) * np.linspace(3, 0.5, 10)
    X = (X - X.mean(axis=0)).astype(np.float32)
    W = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, -4:]
    R = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    V = X @ W
    model = deterministic("signed", W @ R, np.zeros(4), (W @ R).T)
    found = objective(model, X) * len(X)
    B = np.sign(V @ R)
    quantization = np.square(B - V @ R).sum()  # ITQ's own objective
    outside = np.square(X).sum() - np.square(V).sum()
    expected = (quantization + outside) / (2 * RHO2) + len(X) * constants(10, 4)
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_binary_autoencoder_is_a_special_case(rng: np.random.Generator) -> None:
    X = rng.standard_normal((60, 7)).astype(np.float32)
    W, U = rng.standard_normal((7, 5)), rng.standard_normal((5, 7))
    model = deterministic("binary", W, np.zeros(5), U)
    h = (1 + np.sign(X @ W)) / 2
    expected = np.square(X - h @ U).sum() / (2 * RHO2) + len(X) * constants(7, 5)
    assert objective(model, X) * len(X) == pytest.approx(expected, rel=1e-6)


def check_propositions(X: np.ndarray, n_bits: int) -> None:
    """Propositions 1 and 4: distances and inner products are kept up to reconstruction."""
    for coding in ("signed", "binary"):
        model = SGH(n_bits=n_bits, coding=coding, n_steps=300, random_state=0).fit(X)
        x, y = X[:500].astype(np.float64), X[500:1000].astype(np.float64)
        codes_x, codes_y = model.encode(X[:500]), model.encode(X[500:1000])
        back_x, back_y = model.decode(codes_x), model.decode(codes_y)
        error_x = np.linalg.norm(x - back_x, axis=1)
        error_y = np.linalg.norm(y - back_y, axis=1)
        distances = np.linalg.norm(x - y, axis=1)
        step = 2.0 if coding == "signed" else 1.0
        differing = np.bitwise_count(codes_x ^ codes_y).sum(axis=1)
        frobenius = np.linalg.norm(model.decoder_weights_)
        slack = error_x + error_y - (distances - frobenius * step * np.sqrt(differing))
        assert (slack > -1e-6 * distances).all()
        # The tighter inequality inside the proof says something about every pair.
        inner = np.abs(distances - np.linalg.norm(back_x - back_y, axis=1))
        assert (inner <= error_x + error_y + 1e-6 * distances).all()
        assert (error_x + error_y < distances).mean() > 0.05
        products = np.abs((x * y).sum(axis=1) - (x * back_y).sum(axis=1))
        lengths = np.linalg.norm(x, axis=1)
        assert (products <= lengths * error_y * (1 + 1e-6)).all()


def test_propositions_on_digits() -> None:
    check_propositions(load_digits().data.astype(np.float32), 32)


@pytest.mark.slow
def test_propositions_on_real_data(data_folder: Path) -> None:
    with np.load(data_folder / "sift_photos_500k.npz") as data:
        check_propositions(data["base"][:50_000].astype(np.float32), 64)
    with np.load(data_folder / "glove100.npz") as data:
        check_propositions(data["base"].astype(np.float32), 64)


@pytest.mark.slow
def test_reconstruction_beats_iterative_quantization() -> None:
    X = load_digits().data.astype(np.float32)
    itq = ITQ(n_bits=32, random_state=0).fit(X)
    itq_error = np.square(X - itq.decode(itq.encode(X))).sum(axis=1).mean()
    model = SGH(n_bits=32, goal="reconstruction", random_state=0).fit(X)
    assert model.reconstruction_error(X) < 0.95 * itq_error
