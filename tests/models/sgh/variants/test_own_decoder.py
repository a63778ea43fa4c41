"""A decoder of one's own, the multinomial one as an example, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sghash.errors import BadFile, InvalidInput
from sghash.models import GeneralSGH, load_model
from sghash.models.sgh.training.start import make_start
from sghash.models.sgh.variants.decoders import DECODERS
from sghash.models.sgh.variants.multinomial import Multinomial, MultinomialDecoder


def topic_counts(n=300, width=40, seed=1):
    """Words of documents that mix a few of six topics."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(width, 0.1), size=6)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(6, 0.2), size=n) @ words
    lengths = rng.poisson(40, size=n) + 5
    rows = [rng.multinomial(*document) for document in zip(lengths, shares, strict=True)]
    return np.array(rows, dtype=np.float32)


class Poisson:
    """Independent counts of rates exp(h @ slopes + base), less the factorials."""

    def __init__(self, slopes, base):
        self.slopes, self.base = slopes, base

    def mean(self, codes):
        return np.exp(codes @ self.slopes + self.base)

    def log_likelihood(self, vectors, codes):
        logs = codes @ self.slopes + self.base
        return (vectors * logs - np.exp(logs)).sum(axis=1)

    def code_gradient(self, vectors, codes):
        return (vectors - self.mean(codes)) @ self.slopes.T


class PoissonDecoder:
    """As a user would write it: names of its own, and nothing that needs no doing."""

    standardize = False
    names = ("slopes", "base")

    def refuse(self, vectors):
        if vectors.min() < 0:
            raise InvalidInput("rates are counted from 0")

    def start_parameters(self, sample, start, rng):
        means = sample.mean(axis=0) + 0.05
        values = (start.decoder_weights / means / 2, np.log(means))
        return dict(zip(self.names, values, strict=True))

    def at(self, parameters):
        return Poisson(*(parameters[name] for name in self.names))

    def parameter_gradients(self, parameters, vectors, codes):
        residual = (self.at(parameters).mean(codes) - vectors) / len(vectors)
        values = (codes.T @ residual, residual.sum(axis=0))
        return dict(zip(self.names, values, strict=True))


class Named(PoissonDecoder):
    """The same with names that files hold."""

    names = ("decoder_weights", "decoder_bias")


def made(decoder, **options):
    return GeneralSGH(8, decoder=decoder, n_steps=100, random_state=0, **options)


@pytest.mark.parametrize("kind", [MultinomialDecoder(), PoissonDecoder()])
def test_gradients_are_slopes_of_the_log_likelihood(kind, check_gradients):
    rng = np.random.default_rng(1)
    X = topic_counts(60, 10)
    start = make_start("itq", X - X.mean(axis=0), 4, coding="signed", rng=rng)
    parameters = {
        name: np.asarray(value, dtype=np.float64) + 0.1 * rng.normal(size=np.shape(value))
        for name, value in kind.start_parameters(X, start, rng).items()
    }
    check_gradients(kind, parameters, X[:6].astype(np.float64), rng.normal(size=(6, 4)))


def test_the_multinomial_is_a_distribution_over_all_counts_of_a_length():
    rng = np.random.default_rng(2)
    decoder = Multinomial(rng.normal(size=(3, 3)), rng.normal(size=3))
    rows = np.array([(i, j, 5 - i - j) for i in range(6) for j in range(6 - i)], dtype=np.float32)
    codes = np.repeat(rng.choice([-1.0, 1.0], size=(1, 3)), len(rows), axis=0)
    chances = np.exp(decoder.log_likelihood(rows, codes))
    assert chances.sum() == pytest.approx(1)
    np.testing.assert_allclose(chances @ rows, 5 * decoder.mean(codes)[0])


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_counts_are_likelier_under_the_multinomial_than_under_the_gaussian(coding):
    X, unseen = topic_counts(), topic_counts(100, seed=2)
    ours, gaussian = (made(name, coding=coding).fit(X) for name in ("multinomial", "gaussian"))
    lengths = [model.description_length(unseen).total.mean() for model in (ours, gaussian)]
    assert lengths[0] < 0.8 * lengths[1]
    # And under the code that belongs to a document than under that of another one.
    shares = ours.decode(ours.encode(X))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    own = (X * np.log(shares)).sum()
    assert own > (X * np.log(np.roll(shares, 1, axis=0))).sum() + 0.1 * abs(own)


def test_multinomial_refuses_what_is_no_count():
    X = topic_counts()
    with pytest.raises(InvalidInput, match="counts"):
        made("multinomial").fit(X - 1)
    model = made("multinomial").fit(X)
    with pytest.raises(InvalidInput, match="counts"):
        model.encode(X - 1)


@pytest.mark.parametrize("gradient", ["approximate", "distributional", "straight-through"])
def test_an_object_of_ones_own_is_learned(gradient):
    X, decoder = topic_counts(), PoissonDecoder()
    model = made(decoder, gradient=gradient).fit(X)
    assert set(model.decoder_parameters_) == {"slopes", "base"}
    assert model.decoder is decoder
    back = model.decode(model.encode(X))
    assert back.shape == X.shape and back.dtype == np.float32
    assert np.square(X - back).sum() < 0.7 * np.square(X - X.mean(axis=0)).sum()
    if gradient != "straight-through":  # which follows the error of rounded bits, not the length
        lengths = model.history_["description_length"]
        assert lengths[-1] < lengths[0]
    with pytest.raises(InvalidInput, match="counted from 0"):
        model.encode(-X)
    again = clone(model).fit(X)
    assert again.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(again.decode(again.encode(X)), back)


class Shifted:
    """A Gaussian of variance one around h @ w + b, learned in standard units."""

    standardize = True

    def refuse(self, vectors):
        pass

    def start_parameters(self, sample, start, rng):
        return {"w": start.decoder_weights, "b": start.decoder_bias}

    def at(self, parameters):
        from sghash.models.sgh.paper.generative import GaussianDecoder

        return GaussianDecoder(parameters["w"], parameters["b"], 1.0)

    def parameter_gradients(self, parameters, vectors, codes):
        residual = (self.at(parameters).mean(codes) - vectors) / len(vectors)
        return {"w": codes.T @ residual, "b": residual.sum(axis=0)}

    def in_units(self, parameters, unit, shift):
        return {"w": parameters["w"] * unit, "b": parameters["b"] * unit + shift}


def test_an_object_may_learn_in_standard_units():
    X = topic_counts() * 1000 + 7
    model = made(Shifted()).fit(X)
    back = model.decode(model.encode(X))
    assert np.square(X - back).sum() < 0.7 * np.square(X - X.mean(axis=0)).sum()


def test_only_named_decoders_with_known_arrays_are_saved(tmp_path, monkeypatch):
    X = topic_counts()
    with pytest.raises(InvalidInput, match="DECODERS"):
        made(Named()).fit(X).save(tmp_path / "model")
    monkeypatch.setitem(DECODERS, "poisson", PoissonDecoder())
    with pytest.raises(InvalidInput, match="learned slopes, base"):
        made("poisson").fit(X).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    monkeypatch.setitem(DECODERS, "poisson", Named())
    model = made("poisson").fit(X)
    model.save(tmp_path / "model")
    again, codes = load_model(tmp_path / "model"), model.encode(X)
    np.testing.assert_array_equal(again.decode(codes), model.decode(codes))
    monkeypatch.delitem(DECODERS, "poisson")
    with pytest.raises(BadFile, match="got 'poisson': add one of your own"):
        load_model(tmp_path / "model")


def changed(**members):
    return type("Changed", (PoissonDecoder,), members)()


class Blind(Poisson):
    mean = None


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        ("poisson", "decoder must be one of two-layer, bernoulli, gaussian, multinomial, got"),
        (object(), "decoder must be one of .* or an object with `standardize`"),
        (changed(at=None), "Changed has no method at"),
        (changed(standardize=True), "Changed has no method in_units"),
        (changed(names=("encoder_bias", "base")), "uses the encoder's name 'encoder_bias'"),
        (
            changed(start_parameters=lambda *_: {"slopes": np.full((8, 40), np.nan), "base": 0}),
            "NaN or infinite numbers",
        ),
        (changed(at=lambda self, p: Blind(p["slopes"], p["base"])), "without the method mean"),
        (
            changed(parameter_gradients=lambda self, p, x, h: {"base": p["base"]}),
            "must give .*'base', 'slopes'.*, got .*'base'",
        ),
        (
            changed(parameter_gradients=lambda self, p, x, h: {"base": 0.0, "slopes": 0.0}),
            r"must be numbers of shape \(.*\), got float64 of shape \(\)",
        ),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_learned_is_refused_in_a_sentence(decoder, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        made(decoder).fit(topic_counts())
    assert "\n" not in str(refused.value)
