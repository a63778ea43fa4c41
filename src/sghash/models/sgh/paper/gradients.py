"""Four gradients for the encoder, all in one pass through the decoder (equations 7 to 10).

With l(h) = -log p(x | h), the gradient of the objective by the logit z_k is

    p_k (1 - p_k) (D_k + w (z_k - beta_k)),    D_k an estimate of E[l(h_k = 1) - l(h_k = 0)],

and they differ in D (r = alpha + U h - x, s = 1 for 0/1 coding and 2 for ±1):

| estimator          | at h =     | D_k                                                     |
|--------------------|------------|---------------------------------------------------------|
| "approximate"      | a draw     | s u_k . r / rho²                  (equation 9, biased)  |
| "distributional"   | a draw     | the difference itself             (equation 7, unbiased)|
| "exact"            | the mean   | the difference itself             (without a draw)      |
| "straight-through" | [p >= 1/2] | s u_k . r / rho²                  (the released script) |

For the Gaussian decoder l is quadratic in h, so the difference that the paper computes by two
passes per bit is s u_k . r / rho² + s (s - 2 (h_k - low)) |u_k|² / (2 rho²), low the smaller value.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.encoder import (
    Encoder,
    HiddenLayer,
    code_moments,
    draw_bits,
    sigmoid,
)
from sghash.models.sgh.paper.generative import (
    Decoder,
    Floats,
    GaussianDecoder,
    code_step,
    code_values,
)
from sghash.models.shared.seeds import generator_of
from sghash.validation import check_choice

Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None

ESTIMATORS = ("approximate", "distributional", "exact", "straight-through")


class FittedModel(Protocol):
    """What the public functions read from a fitted `SGH`; `hidden_...` if it has a hidden layer."""

    coding: str
    hidden: int
    encoder_weights_: Floats
    encoder_bias_: Floats
    decoder_weights_: Floats
    decoder_bias_: Floats
    noise_variance_: float
    prior_logits_: Floats
    hidden_weights_: Floats
    hidden_bias_: Floats
    hidden_output_: Floats

    def checked_rows(self, X: ArrayLike) -> Floats:
        """Checked vectors (n, d), of unit length if the metric is "cosine"."""
        ...


def gaussian_decoder(model: FittedModel) -> GaussianDecoder:
    """Return the fitted decoder in double precision, in units of the input vectors."""
    return GaussianDecoder(
        np.asarray(model.decoder_weights_, dtype=np.float64),
        np.asarray(model.decoder_bias_, dtype=np.float64),
        float(model.noise_variance_),
    )


def fitted_encoder(model: FittedModel, dtype: type[Any] = np.float64) -> Encoder:
    """Return the fitted encoder, in units of the input vectors."""
    hidden = None
    if model.hidden:
        arrays = (model.hidden_weights_, model.hidden_bias_, model.hidden_output_)
        hidden = HiddenLayer(*(np.asarray(array, dtype=dtype) for array in arrays))
    weights, bias = (
        np.asarray(array, dtype=dtype) for array in (model.encoder_weights_, model.encoder_bias_)
    )
    return Encoder(weights, bias, hidden)


def encoder_logits(model: FittedModel, vectors: Floats) -> Floats:
    """Logits (n, n_bits) in double precision of checked vectors."""
    return fitted_encoder(model).logits(vectors.astype(np.float64))


def encoder_gradient(
    model: FittedModel,
    X: ArrayLike,
    *,
    estimator: str = "exact",
    kl_weight: float = 1.0,
    closed_form: bool = True,
    random_state: Seed = None,
) -> NDArray[np.float64]:
    """Estimate d objective / d `encoder_weights_`, (d, n_bits), at a fitted model.

    The objective is the mean over the rows of `X` of the description length in nats, with the
    divergence weighted by `kl_weight`. `closed_form=False` takes the general path that serves any
    decoder: one extra pass per bit for the differences ("approximate" and "straight-through" need
    the gradient in h alone, "exact" has no general form).
    """
    check_choice(estimator, ESTIMATORS, name="estimator")
    vectors = model.checked_rows(X).astype(np.float64)
    decoder, logits = gaussian_decoder(model), encoder_logits(model, vectors)
    probabilities = sigmoid(logits)
    rng = generator_of(random_state)
    differences = gaussian_differences if closed_form else general_differences
    change = differences(
        decoder, vectors, probabilities, estimator=estimator, coding=model.coding, rng=rng
    )
    slope = change + kl_weight * (logits - np.asarray(model.prior_logits_, np.float64))
    return vectors.T @ (probabilities * (1 - probabilities) * slope) / len(vectors)


def distributional_derivative(
    model: FittedModel, X: ArrayLike, *, closed_form: bool = True, random_state: Seed = None
) -> NDArray[np.float64]:
    """Estimate D_W H~ (d, n_bits) by one draw of each row, without bias (equation 7).

    `closed_form=False` computes the differences l(h_k = 1) - l(h_k = 0) by one pass per bit.
    """
    return encoder_gradient(
        model, X, estimator="distributional", closed_form=closed_form, random_state=random_state
    )


def approximate_derivative(
    model: FittedModel, X: ArrayLike, *, random_state: Seed = None
) -> NDArray[np.float64]:
    """Estimate D~_W H~ (d, n_bits) by one draw of each row (equation 9).

    The slope of l at the draw stands in the place of the difference: one pass, biased.
    """
    return encoder_gradient(model, X, estimator="approximate", random_state=random_state)


def unbiased_gradient(
    model: FittedModel, X: ArrayLike, *, random_state: Seed = None
) -> dict[str, NDArray[np.float64]]:
    """Estimate the gradient of the objective by all parameters, without bias (equation 8).

    By name: `encoder_weights`, `encoder_bias`, `decoder_weights`, `decoder_bias`, `log_noise`
    (log rho²) and `prior_logits` (beta); of a hidden layer, `hidden_weights` (V), `hidden_bias` (c)
    and `hidden_output` (O).
    """
    return _full_gradient(model, X, "distributional", random_state)


def approximate_gradient(
    model: FittedModel, X: ArrayLike, *, random_state: Seed = None
) -> dict[str, NDArray[np.float64]]:
    """Estimate the gradient by all parameters, the encoder's by equation 9 (equation 10)."""
    return _full_gradient(model, X, "approximate", random_state)


def _full_gradient(
    model: FittedModel, X: ArrayLike, estimator: str, random_state: Seed
) -> dict[str, NDArray[np.float64]]:
    """What `sghash.models.sgh.training.step.GaussianStep` computes fast, from its definition."""
    x = model.checked_rows(X).astype(np.float64)
    decoder, logits = gaussian_decoder(model), encoder_logits(model, x)
    prior, p = np.asarray(model.prior_logits_, np.float64), sigmoid(logits)
    codes = codes_for(p, estimator, model.coding, generator_of(random_state))
    change = differences_at(codes, decoder, x, estimator=estimator, coding=model.coding)
    slopes = p * (1 - p) * (change + logits - prior) / len(x)
    hidden = fitted_encoder(model).hidden
    residual, noise = decoder.mean(codes) - x, decoder.noise_variance
    squares = np.square(residual).sum() / len(x)
    return {
        "encoder_weights": x.T @ slopes,
        "encoder_bias": slopes.sum(axis=0),
        "decoder_weights": codes.T @ residual / (len(x) * noise),
        "decoder_bias": residual.sum(axis=0) / (len(x) * noise),
        "log_noise": np.asarray(0.5 * (x.shape[1] - squares / noise)),
        "prior_logits": sigmoid(prior) - p.mean(axis=0),
        **({} if hidden is None else _hidden_gradient(hidden, x, slopes)),
    }


def _hidden_gradient(
    hidden: HiddenLayer, x: Floats, slopes: Floats
) -> dict[str, NDArray[np.float64]]:
    """Gradients by V, c and O, from `slopes` by the logits."""
    units = hidden.units(x)
    by_units = (slopes @ hidden.output.T) * (units > 0)
    return {
        "hidden_weights": x.T @ by_units,
        "hidden_bias": by_units.sum(axis=0),
        "hidden_output": units.T @ slopes,
    }


def codes_for(
    probabilities: Floats, estimator: str, coding: str, rng: np.random.Generator
) -> Floats:
    """Return the h (n, n_bits) at which `estimator` looks at the decoder."""
    kind = probabilities.dtype.type
    if estimator == "exact":
        return code_moments(probabilities, coding)[0]
    if estimator == "straight-through":
        return code_values(probabilities >= 0.5, coding, kind)
    return code_values(draw_bits(probabilities, rng), coding, kind)


def gaussian_differences(
    decoder: GaussianDecoder,
    vectors: Floats,
    probabilities: Floats,
    *,
    estimator: str,
    coding: str,
    rng: np.random.Generator,
) -> Floats:
    """D (n, n_bits) in closed form."""
    codes = codes_for(probabilities, estimator, coding, rng)
    return differences_at(codes, decoder, vectors, estimator=estimator, coding=coding)


def differences_at(
    codes: Floats, decoder: GaussianDecoder, vectors: Floats, *, estimator: str, coding: str
) -> Floats:
    """D (n, n_bits) in closed form at the h that `codes` are."""
    step = code_step(coding)
    change = -step * decoder.code_gradient(vectors, codes)
    if estimator in ("distributional", "exact"):
        above = codes + 1 if coding == "signed" else codes  # h_k - low
        squares = np.square(decoder.weights).sum(axis=1)
        change += step * (step - 2 * above) * squares / (2 * decoder.noise_variance)
    return change


def general_differences(
    decoder: Decoder,
    vectors: Floats,
    probabilities: Floats,
    *,
    estimator: str,
    coding: str,
    rng: np.random.Generator,
) -> Floats:
    """D (n, n_bits) for any decoder, by one extra pass per bit where a difference is asked for."""
    codes = codes_for(probabilities, estimator, coding, rng)
    if estimator in ("approximate", "straight-through"):
        return -code_step(coding) * decoder.code_gradient(vectors, codes)
    if estimator == "exact":
        raise InvalidInput(
            "the exact gradient needs a decoder that is quadratic in the code: "
            "use estimator='distributional', whose mean it is"
        )
    return finite_differences(decoder, vectors, codes, coding)


def finite_differences(decoder: Decoder, vectors: Floats, codes: Floats, coding: str) -> Floats:
    """Delta of equation 7: l(h_k = 1) - l(h_k = 0) for every bit (n, n_bits), the others as given.

    `codes` must hold the two values only: one of the two losses is then the same for all bits, so
    n_bits + 1 passes do for the definition's 2 n_bits.
    """
    low, high = code_values(np.array([0, 1]), coding)
    here = decoder.log_likelihood(vectors, codes)
    change = np.empty_like(codes)
    for k in range(codes.shape[1]):
        is_high = codes[:, k] == high
        flipped = codes.copy()
        flipped[:, k] = np.where(is_high, low, high)
        there = decoder.log_likelihood(vectors, flipped)
        change[:, k] = np.where(is_high, there - here, here - there)
    return change
