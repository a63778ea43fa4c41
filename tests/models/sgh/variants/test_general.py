"""Other decoders: gradients against finite differences, data they refuse, lengths, files."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sghash import load_model
from sghash.errors import InvalidInput
from sghash.models import GeneralSGH
from sghash.models.sgh.paper.encoder import sigmoid
from sghash.models.sgh.paper.generative import CODINGS, code_values
from sghash.models.sgh.training.start import make_start
from sghash.models.sgh.variants.decoders import DECODERS

NAMES = ["bernoulli", "gaussian", "two-layer"]


def binary_rows(n=200, width=12, seed=0):
    """Noisy copies of a few binary patterns."""
    rng = np.random.default_rng(0)
    patterns = rng.random((6, width)) < 0.5
    rng = np.random.default_rng(seed)
    rows = patterns[rng.integers(6, size=n)]
    return (rows ^ (rng.random(rows.shape) < 0.05)).astype(np.float32)


def first_parameters(name, rng):
    X = binary_rows()
    start = make_start("itq", X - X.mean(axis=0), 4, coding="signed", rng=rng)
    return DECODERS[name].start_parameters(X, start, rng)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_slopes_of_the_log_likelihood(name, check_gradients):
    rng = np.random.default_rng(1)
    X = binary_rows(7).astype(np.float64)
    parameters = {
        key: np.asarray(value, dtype=np.float64) + 0.1 * rng.normal(size=np.shape(value))
        for key, value in first_parameters(name, rng).items()
    }
    if name == "two-layer":  # six of its units are enough to look at
        parameters = {
            key: value[..., :6]
            if key.startswith("hidden")
            else value[:6]
            if value.ndim == 2
            else value
            for key, value in parameters.items()
        }
    check_gradients(DECODERS[name], parameters, X, rng.normal(size=(7, 4)))


def test_every_decoder_starts_at_the_linear_one():
    rng = np.random.default_rng(2)
    codes = code_values(rng.random((9, 4)) < 0.5, "signed", np.float64)
    means = [
        DECODERS[name].at(first_parameters(name, np.random.default_rng(2))).mean(codes)
        for name in ("gaussian", "two-layer")
    ]
    assert np.allclose(*means, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_both_codings_start_at_the_same_decoder(name):
    X = binary_rows()
    options = {"n_bits": 6, "decoder": name, "n_steps": 1, "learning_rate": 1e-7}
    signed, binary = (
        GeneralSGH(coding=coding, random_state=0, **options).fit(X) for coding in CODINGS
    )
    codes = signed.encode(X)
    assert np.array_equal(codes, binary.encode(X))
    assert np.allclose(signed.decode(codes), binary.decode(codes), atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gradient", ["approximate", "distributional", "straight-through"])
def test_learns_and_decodes_to_means(name, gradient):
    X = binary_rows()
    options = {"n_bits": 6, "decoder": name, "gradient": gradient, "n_hidden": 16}
    model = GeneralSGH(n_steps=150, random_state=0, **options).fit(X)
    back = model.decode(model.encode(X))
    assert back.shape == X.shape and back.dtype == np.float32
    assert np.square(X - back).sum() < 0.5 * np.square(X - X.mean(axis=0)).sum()
    errors = model.history_["reconstruction_error"]
    # Errors of single batches: a training that goes on may end on a harder one.
    assert len(errors) == 10 and min(errors[5:]) < 1.1 * errors[0]
    if name == "bernoulli":
        assert back.min() >= 0 and back.max() <= 1


@pytest.mark.parametrize("coding", ["signed", "binary"])
@pytest.mark.parametrize("name", NAMES)
def test_description_length_is_its_enumeration(name, coding):
    X = binary_rows(20)
    model = GeneralSGH(n_bits=4, decoder=name, coding=coding, n_steps=20, random_state=0).fit(X)
    # Rare codes far from the vector would ask for many more draws.
    model.encoder_weights_, model.noise_variance_ = model.encoder_weights_ * 0.2, 0.5
    model.encoder_bias_ = model.encoder_bias_ * 0.2
    logits = X @ model.encoder_weights_ + model.encoder_bias_
    p, prior = sigmoid(logits.astype(float)), sigmoid(model.prior_logits_.astype(float))
    expected = np.zeros(len(X))
    for bits in product((0, 1), repeat=4):
        chance = np.where(bits, p, 1 - p).prod(axis=1)
        before = np.where(bits, prior, 1 - prior).prod()
        codes = np.tile(code_values(np.array(bits), coding, np.float64), (len(X), 1))
        likelihood = model._decoder().log_likelihood(X.astype(float), codes)
        expected += chance * (np.log(chance / before) - likelihood)
    found = model.description_length(X, n_draws=4000).total
    assert np.allclose(found, expected / np.log(2), rtol=0.02, atol=0.2)


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_the_decoder(name, tmp_path):
    X = binary_rows()
    model = GeneralSGH(n_bits=5, decoder=name, n_steps=20, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    codes = model.encode(X)
    assert np.array_equal(again.decode(codes), model.decode(codes))
    assert np.array_equal(again.description_length(X).total, model.description_length(X).total)


def test_bernoulli_refuses_what_is_not_a_chance():
    X = binary_rows()
    model = GeneralSGH(n_bits=5, decoder="bernoulli", n_steps=5, random_state=0)
    for wrong in (X - 0.1, 2 * X):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            model.fit(wrong)
    model.fit(X * 0.5)
    for verb in (model.encode, model.description_length, model.bit_probabilities):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            verb(3 * X)


def test_wrong_options_are_refused():
    for wrong in (
        {"decoder": "poisson"}, {"gradient": "exact"}, {"coding": "ternary"}, {"n_hidden": 0},
        {"kl_weight": 1.0}, {"learning_rate": 0.0}, {"n_steps": 1.5},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            GeneralSGH(**wrong).fit(binary_rows())


@pytest.mark.parametrize("name", ["gaussian", "two-layer"])
@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e12])
def test_the_unit_of_the_vectors_changes_nothing(name, scale):
    X = binary_rows()
    options = {"n_bits": 6, "decoder": name, "n_hidden": 8, "n_steps": 40, "random_state": 0}
    usual, other = (GeneralSGH(**options).fit(X * np.float32(unit)) for unit in (1, scale))
    codes = usual.encode(X)
    assert np.mean(codes != other.encode(X * np.float32(scale))) < 0.02
    np.testing.assert_allclose(other.decode(codes) / scale, usual.decode(codes), atol=0.02)
    assert other.noise_variance_ == pytest.approx(usual.noise_variance_ * scale**2, rel=0.02)
    longer = X.shape[1] * np.log2(scale)
    found = other.description_length(X * np.float32(scale)).total.mean() - longer
    assert found == pytest.approx(usual.description_length(X).total.mean(), abs=1)
