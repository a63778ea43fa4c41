"""The generative model p(x | h) p(h): how a code becomes a vector (equations 1 and 2).

The paper's decoder is Gaussian, p(x | h) = N(alpha + U h, rho² I) (its equation 1, with the
translation alpha of the supplementary material). Any other decoder that offers the two methods of
`Decoder` can be trained through finite differences in h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[Any]

CODINGS = ("signed", "binary")


def code_step(coding: str) -> float:
    """Return the distance between the two values of a bit: 2 for ±1, 1 for 0/1."""
    return 2.0 if coding == "signed" else 1.0


def code_values(bits: NDArray[Any], coding: str, dtype: type = np.float32) -> Floats:
    """Bits, or probabilities of bits, as the numbers h that the decoder sees (n, n_bits)."""
    values: Floats = bits.astype(dtype)
    if coding == "signed":
        values *= 2
        values -= 1
    return values


class Decoder(Protocol):
    """What training needs to know of p(x | h); h is (n, n_bits) in ±1 or 0/1, or between."""

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """Log p(x | h) of every row, (n,)."""
        ...

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Derivative of `log_likelihood` by every entry of h, (n, n_bits)."""
        ...


@dataclass(frozen=True)
class GaussianDecoder:
    """p(x | h) = N(`bias` + h @ `weights`, `noise_variance` I) (equation 1).

    `weights` (n_bits, d) are the codebook U, `bias` (d,) is alpha, `noise_variance` rho².
    """

    weights: Floats
    bias: Floats
    noise_variance: float

    def mean(self, codes: Floats) -> Floats:
        """Mean vectors (n, d) of the codes h."""
        return codes @ self.weights + self.bias

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """Log p(x | h) of every row, (n,) (equation 1)."""
        squares = np.square(vectors - self.mean(codes)).sum(axis=1)
        return -self._nats(squares, vectors.shape[1])

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Derivative of `log_likelihood` by every entry of h, (n, n_bits)."""
        return (vectors - self.mean(codes)) @ self.weights.T / self.noise_variance

    def expected_squares(self, vectors: Floats, means: Floats, variances: Floats) -> Floats:
        """E |x - alpha - U h|² of every row, (n,), for independent bits of these moments.

        = |x - alpha - U m|² + sum_k v_k |u_k|²: exact, since the square is quadratic in h.
        """
        at_mean = np.square(vectors - self.mean(means)).sum(axis=1)
        return at_mean + variances @ np.square(self.weights).sum(axis=1)

    def expected_nats(self, vectors: Floats, means: Floats, variances: Floats) -> Floats:
        """E[-log p(x | h)] of every row in nats, (n,)."""
        return self._nats(self.expected_squares(vectors, means, variances), vectors.shape[1])

    def _nats(self, squares: Floats, width: int) -> Floats:
        constant = 0.5 * width * np.log(2 * np.pi * self.noise_variance)
        return squares / (2 * self.noise_variance) + constant


def log_prior(bits: Floats, prior_logits: Floats) -> Floats:
    """Log p(h) of every row of `bits` (n, n_bits), 0/1 (in equation 1).

    Bits are independent, P(h_k = 1) = theta_k; `prior_logits` are beta = log(theta / (1 - theta)).
    """
    return (bits * prior_logits - np.logaddexp(0, prior_logits)).sum(axis=-1)


def log_joint(
    decoder: Decoder, vectors: Floats, bits: Floats, prior_logits: Floats, *, coding: str
) -> Floats:
    """Log p(x, h) of every row, (n,) (equation 2, with its constant).

    For the Gaussian decoder -|x - alpha - U h|² / (2 rho²) + beta . h up to the constant. (The
    paper prints the exponent with both signs reversed, by which errors would be likely.)
    """
    codes = code_values(bits, coding, vectors.dtype.type)
    return decoder.log_likelihood(vectors, codes) + log_prior(bits, prior_logits)
