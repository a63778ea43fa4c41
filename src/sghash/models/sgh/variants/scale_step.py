"""The model with scales, x ~ N(alpha + r (u_0 e_0 + U (e . s)), r² rho² I): its gradient.

The paper's supplement decodes z . h in the place of h and leaves q(z | x) and the prior of z open.
Here z_k = r e_k > 0: r = |x - origin| is the length of the vector (read off x, with a flat prior),
and e_k, bit k's own scale, has the log-normal prior exp(N(-tau²/2, tau²)) of mean one and the
log-normal posterior exp(N(mu_k, v_k)), mu = W_z^T f + c, with f the direction of x. A narrow prior
keeps the scales from saying what the code should say; e_0 belongs to a bit that is always set.

With E e = exp(mu + v/2), E e² = (E e)² exp(v), t = E s (or a draw of s) and y = t . E e,

    E |f - a/r - u_0 e_0 - U (e . s)|² = |f - a/r - U y|² + sum_k (E e_k² - y_k²) |u_k|²

is exact, so nothing of z is ever sampled. The difference between the two values of bit k is
2 E e_k u_k . residual - 2 t_k (E e_k)² |u_k|²: all four gradients of `gradients` in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sghash.models.sgh.paper.encoder import divergence, sigmoid
from sghash.models.sgh.paper.generative import Floats
from sghash.models.sgh.paper.gradients import codes_for
from sghash.models.sgh.training.optimizer import Parameters


class Rows(NamedTuple):
    """Vectors as the model sees them.

    `directions` (n, d) of mean square one, `features` (n, d) that encoder and scales are linear in
    (directions shifted and scaled, for the sake of the optimiser), `lengths` (n,).
    """

    directions: Floats
    features: Floats
    lengths: Floats


class _Moments(NamedTuple):
    mean: Floats  # of e, (n, n_bits + 1)
    square: Floats
    log_mean: Floats  # mu


def scale_moments(parameters: Mapping[str, Floats], features: Floats) -> _Moments:
    """Mean and mean square of e (n, n_bits + 1) under q(z | x), bit 0 the one always set."""
    mu = features @ parameters["scale_weights"] + parameters["scale_bias"]
    variance = np.exp(parameters["log_scale_variance"])
    mean = np.exp(mu + variance / 2)
    return _Moments(mean, np.square(mean) * np.exp(variance), mu)


def with_constant(codes: Floats) -> Floats:
    """Codes (n, n_bits) with a first column of ones: the bit that is always set."""
    return np.concatenate([np.ones((len(codes), 1), dtype=codes.dtype), codes], axis=1)


def scale_gradient(
    parameters: Parameters,
    rows: Rows,
    *,
    estimator: str,
    kl_weight: float,
    spread: float,
    rng: np.random.Generator,
    out: Parameters,
) -> float:
    """Fill `out` with the gradient by all parameters; return the mean objective in nats.

    `spread` is tau. The divergence of the bits has weight `kl_weight`, that of the scales always 1.
    The objective is exact for the estimator "exact", else that of the codes looked at.
    """
    f, n = rows.features, len(rows.features)
    width, noise = f.shape[1], float(np.exp(parameters["log_noise"]))
    u = parameters["decoder_weights"]
    lengths = np.square(u).sum(axis=1)
    logits = f @ parameters["encoder_weights"] + parameters["encoder_bias"]
    p = sigmoid(logits)
    t = with_constant(codes_for(p, estimator, "signed", rng))
    moments = scale_moments(parameters, f)
    y = t * moments.mean
    inverse = 1 / rows.lengths[:, None]
    r = y @ u + parameters["decoder_bias"] * inverse - rows.directions
    by_code = r @ u.T  # u_k . r, (n, n_bits + 1)
    left = moments.square - np.square(y)

    change = 2 * moments.mean * by_code
    if estimator in ("distributional", "exact"):
        change -= 2 * t * np.square(moments.mean) * lengths
    slopes = p * (1 - p) / n
    slopes *= change[:, 1:] / noise + kl_weight * (logits - parameters["prior_logits"])
    _put(out, "encoder", f, slopes)
    # d / d mu: E e grows as itself, E e² as twice itself.
    by_mean = (y * by_code + left * lengths) / noise
    variance = np.exp(parameters["log_scale_variance"])
    kl, kl_by_mean, kl_by_variance = _scale_divergence(moments.log_mean, variance, spread)
    _put(out, "scale", f, (by_mean + kl_by_mean) / n)
    by_variance = 0.5 * (y * by_code + (moments.square + left) * lengths) / noise
    out["log_scale_variance"][...] = variance * (by_variance + kl_by_variance).mean(axis=0)
    out["decoder_weights"][...] = (y.T @ r + u * left.sum(axis=0)[:, None]) / (n * noise)
    out["decoder_bias"][...] = (r * inverse).sum(axis=0) / (n * noise)
    squares = float((np.square(r).sum() + (left @ lengths).sum()) / n)
    out["log_noise"][...] = 0.5 * (width - squares / noise)
    out["prior_logits"][...] = kl_weight * (sigmoid(parameters["prior_logits"]) - p.mean(axis=0))
    nats = 0.5 * squares / noise + 0.5 * width * float(np.log(2 * np.pi * noise))
    nats += kl_weight * float(divergence(logits, parameters["prior_logits"]).sum()) / n
    return nats + float(kl.sum()) / n


def _put(out: Parameters, name: str, features: Floats, slopes: Floats) -> None:
    out[f"{name}_weights"][...] = features.T @ slopes
    out[f"{name}_bias"][...] = slopes.sum(axis=0)


def _scale_divergence(
    log_mean: Floats, variance: Floats, spread: float
) -> tuple[Floats, Floats, Floats]:
    """KL of q(e | x) from the prior, and its derivatives by mu and by the variance."""
    prior = spread**2
    away = log_mean + prior / 2
    kl = 0.5 * (np.log(prior / variance) + (variance + np.square(away)) / prior - 1)
    return kl, away / prior, np.broadcast_to(0.5 * (1 / prior - 1 / variance), kl.shape)
