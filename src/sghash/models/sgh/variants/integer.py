"""Any function of a binary vector, minimised by distributional SGD (the paper's closing remark).

In the place of the vector h in {0,1}^l stand independent bits with P(h_k = 1) = p_k = sigmoid(z_k),
and E[f(h)] is a smooth function of the logits z. With an entropy bonus of weight T that fades,

    minimise  E[f(h)] - T sum_k entropy(p_k),    d / d z_k = p_k (1 - p_k) (D_k + T z_k),

D_k an estimate of E[f(h_k = 1) - f(h_k = 0)]: the difference itself at a draw ("distributional",
unbiased, n_bits + 1 values of f), or f's slope there ("approximate" at a draw, "straight-through"
at the likelier bits; biased, one slope). These are the estimators that train `SGH`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.models.sgh.paper.encoder import sigmoid
from sghash.models.sgh.paper.generative import Floats
from sghash.models.sgh.paper.gradients import general_differences
from sghash.models.sgh.training.optimizer import Adam
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import check_choice, check_n_bits

GRADIENTS = ("distributional", "approximate", "straight-through")
#: Draws that tell how much f varies, so that the entropy's weight means the same for every f.
SCALE_DRAWS = 64

Bits = NDArray[np.bool_]


class BinaryMinimum(NamedTuple):
    """The best vector met: `bits` (n_bits,) bool and its `value`.

    `probabilities` (n_starts, n_bits) are what was learned, `history` (n_steps,) the best value
    after every step, `n_values` how many vectors f was asked about, `n_slopes` how many slopes.
    """

    bits: Bits
    value: float
    probabilities: NDArray[np.float64]
    history: NDArray[np.float64]
    n_values: int
    n_slopes: int


@dataclass
class _Counted:
    """The function as a decoder sees it (-f is the log-likelihood), with the best vector met."""

    f: Callable[[Bits], Any]
    slope: Callable[[Bits], Any] | None
    best_bits: Bits
    best: float = np.inf
    n_values: int = 0
    n_slopes: int = 0

    def values(self, bits: Bits) -> Floats:
        """Values (m,) of f at bits (m, n_bits), each finite."""
        values = np.asarray(self.f(bits), dtype=np.float64)
        if values.shape != (len(bits),):
            raise InvalidInput(
                f"f got {len(bits)} vectors and gave an array of shape {values.shape}: "
                "give one value per row"
            )
        if not np.isfinite(values).all():
            raise InvalidInput("f gave NaN or an infinite value: give finite penalties instead")
        self.n_values += len(bits)
        place = int(values.argmin())
        if values[place] < self.best:
            self.best, self.best_bits = float(values[place]), bits[place].copy()
        return values

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """-f of every row of 0/1 `codes`, (n,)."""
        return -self.values(codes > 0.5)

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Minus the slope of f at every row of `codes`, (n, n_bits)."""
        if self.slope is None:  # refused before the first step
            raise InvalidInput("this gradient needs slope=")
        slopes = np.asarray(self.slope(codes > 0.5), dtype=np.float64)
        if slopes.shape != codes.shape or not np.isfinite(slopes).all():
            raise InvalidInput(
                f"slope must give finite numbers of shape {codes.shape}, one per bit of each row"
            )
        self.n_slopes += len(codes)
        return -slopes


def minimize_binary(
    f: Callable[[Bits], Any],
    n_bits: int,
    *,
    gradient: str = "distributional",
    slope: Callable[[Bits], Any] | None = None,
    n_steps: int = 200,
    n_starts: int = 16,
    learning_rate: float = 0.3,
    entropy_weight: float = 0.1,
    random_state: Seed = None,
) -> BinaryMinimum:
    """Find bits (n_bits,) with a small f; f sees many vectors at once.

    Parameters
    ----------
    f : callable
        Takes bits (m, n_bits) bool, returns m finite values.
    n_bits : int
        Length of the binary vector.
    gradient : {"distributional", "approximate", "straight-through"}
        How the gradient is estimated; all but the first need `slope`.
    slope : callable or None
        Derivative of f, continued to real vectors, by every bit: takes bits (m, n_bits), returns
        (m, n_bits).
    n_steps : int
        Steps; each asks f about n_starts * (n_bits + 1) vectors ("distributional"), or for
        `n_starts` values and slopes.
    n_starts : int
        Distributions that are learned side by side; the best vector of all is returned.
    learning_rate : float
        First learning rate of Adam; it falls to zero as a cosine.
    entropy_weight : float
        First weight of the entropy, in standard deviations of f over random vectors; it falls to
        zero over three quarters of the steps.
    random_state : int, Generator or None
        Seed; the same seed gives the same answer.
    """
    _check_options(f, gradient, slope, n_steps, n_starts, learning_rate, entropy_weight)
    n_bits = check_n_bits(n_bits)
    rng = generator_of(random_state)
    counted = _Counted(f, slope, np.zeros(n_bits, dtype=bool))
    spread = float(counted.values(rng.random((SCALE_DRAWS, n_bits)) < 0.5).std()) or 1.0
    # Symmetric problems have no slope where all bits are fair: start beside it.
    logits = (0.5 * rng.standard_normal((n_starts, n_bits))).astype(np.float32)
    optimizer = Adam(logits.size)
    no_vectors, history = np.empty((n_starts, 0)), np.empty(n_steps)
    for step in range(n_steps):
        p = sigmoid(logits.astype(np.float64))
        change = general_differences(
            counted, no_vectors, p, estimator=gradient, coding="binary", rng=rng
        )
        weight = entropy_weight * max(0.0, 1 - step / (0.75 * n_steps))
        slopes = p * (1 - p) * (change / spread + weight * logits)
        rate = learning_rate * 0.5 * (1 + np.cos(np.pi * step / n_steps))
        optimizer.update(logits.reshape(-1), slopes.astype(np.float32).reshape(-1), rate)
        if gradient != "distributional":  # whose differences have looked at the draws already
            counted.values(rng.random(p.shape) < p)
        history[step] = counted.best
    probabilities = sigmoid(logits.astype(np.float64))
    counted.values(probabilities > 0.5)
    return BinaryMinimum(
        counted.best_bits, counted.best, probabilities, history, counted.n_values, counted.n_slopes
    )


def _check_options(
    f: Any,
    gradient: str,
    slope: Any,
    n_steps: Any,
    n_starts: Any,
    learning_rate: Any,
    entropy_weight: Any,
) -> None:
    if not callable(f):
        raise InvalidDtype(f"f must be a function of bits, got {f!r}")
    check_choice(gradient, GRADIENTS, name="gradient")
    if gradient != "distributional" and not callable(slope):
        raise InvalidInput(
            f"gradient {gradient!r} needs the derivative of f: give slope=, or "
            "gradient='distributional'"
        )
    for name, value in (("n_steps", n_steps), ("n_starts", n_starts)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InvalidInput(f"{name} must be a whole number of at least 1, got {value!r}")
    for name, value in (("learning_rate", learning_rate), ("entropy_weight", entropy_weight)):
        is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not (is_number and np.isfinite(value) and value >= 0):
            raise InvalidInput(f"{name} must be a finite number of at least 0, got {value!r}")
