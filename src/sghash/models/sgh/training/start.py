"""Where training starts, learned from a sample of the vectors in the trainer's units.

"itq" rotates the principal components until their signs fit them (few iterations on a sample),
"pca" takes them as they are; the decoder that fits their codes best follows by least squares.
"random" draws everything, "script" as the authors' released script does (also the encoder's bias).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sghash.models.sgh.paper.generative import code_values
from sghash.models.shared.axes import leading_axes, semi_orthogonal
from sghash.models.shared.least_squares import LeastSquares
from sghash.validation import Vectors

START_ROWS = 10_000
ITQ_ITERATIONS = 20
#: Vectors that an iteration sees where there are more; iterations then; share that is remembered.
ROTATED_ROWS, LONG_ITERATIONS, MEMORY = 6000, 120, 0.95
#: Standard deviation of the first logits: bits begin nearly decided, those at the border can move.
LOGIT_SPREAD = 4.0
#: Smallest noise variance, as a share of the mean variance of a column.
NOISE_FLOOR = 1e-6


class Start(NamedTuple):
    """First values of all parameters, in the trainer's units, named as the parameters are."""

    encoder_weights: Vectors
    encoder_bias: Vectors
    decoder_weights: Vectors
    decoder_bias: Vectors
    log_noise: float
    prior_logits: Vectors


def itq_projection(sample: Vectors, n_bits: int, rng: np.random.Generator) -> Vectors:
    """Projection (d, n_bits): principal axes, rotated by iterative quantization.

    Of many vectors every iteration sees others, and remembers the earlier ones less and less: a
    rotation of many numbers fits what it has seen too well if that is always the same.
    """
    axes = leading_axes(sample[:ROTATED_ROWS], n_bits, rng)
    rotation = semi_orthogonal(axes.shape[1], n_bits, rng).astype(np.float32)
    first, many = 0, len(sample) >= 2 * ROTATED_ROWS
    cross = np.zeros(rotation.shape, dtype=np.float32)
    for _ in range(0 if not axes.shape[1] else LONG_ITERATIONS if many else ITQ_ITERATIONS):
        components = sample[first : first + ROTATED_ROWS] @ axes if many else sample @ axes
        signs = code_values(components @ rotation > 0, "signed")
        cross = components.T @ signs + np.float32(MEMORY if many else 0) * cross
        left, _, right = np.linalg.svd(cross, full_matrices=False)
        rotation = (left @ right).astype(np.float32)
        first = first + ROTATED_ROWS if first + 2 * ROTATED_ROWS <= len(sample) else 0
    return axes @ rotation


def pca_projection(sample: Vectors, n_bits: int, rng: np.random.Generator) -> Vectors:
    """Projection (d, n_bits) on the principal axes; beyond the rank, random mixtures of them."""
    axes = leading_axes(sample, n_bits, rng)
    rank = axes.shape[1]
    mixtures = axes @ semi_orthogonal(rank, n_bits - rank, rng)
    return np.concatenate([axes, mixtures], axis=1).astype(np.float32)


#: Starts that are a projection whose signs are the first codes.
PROJECTIONS: dict[str, Callable[[Vectors, int, np.random.Generator], Vectors]] = {
    "itq": itq_projection,
    "pca": pca_projection,
}
STARTS = (*PROJECTIONS, "random", "script")


def make_start(
    init: str,
    sample: Vectors,
    n_bits: int,
    *,
    coding: str,
    rng: np.random.Generator,
    logit_spread: float = LOGIT_SPREAD,
) -> Start:
    """Return the first parameters for vectors like `sample` (n, d)."""
    if init not in PROJECTIONS:
        return random_start(sample, n_bits, rng, random_bias=init == "script")
    projection = PROJECTIONS[init](sample, n_bits, rng)
    scores = sample @ projection
    spread = scores.std(axis=0)
    spread[spread == 0] = 1
    codes = code_values(scores > 0, coding)
    squares = LeastSquares(n_bits, sample.shape[1])
    squares.add(codes, sample)
    weights, bias = squares.solve()
    noise = float(np.square(sample - codes @ weights - bias, dtype=np.float64).mean())
    return Start(
        projection * np.float32(logit_spread) / spread,
        np.zeros(n_bits, dtype=np.float32),
        weights,
        bias,
        float(np.log(max(noise, NOISE_FLOOR))),
        np.zeros(n_bits, dtype=np.float32),
    )


#: Size of the hidden layer's first share of a logit, that of the linear part being a few units.
HIDDEN_SHARE = 0.1


def hidden_start(
    sample: Vectors, n_hidden: int, n_bits: int, rng: np.random.Generator
) -> dict[str, Vectors]:
    """First parameters of a hidden layer by name, none if it has no units.

    Every unit is zero for about half of the vectors, of mean square about one, and hardly counts.
    """
    if not n_hidden:
        return {}
    variances = sample.var(axis=0, dtype=np.float64)
    # Constant columns carry no weight at all, not even rounding: their values may be huge.
    spread = np.sqrt(2 / (variances.sum() or 1.0)) * (np.ptp(sample, axis=0) > 0)
    weights = spread[:, None] * rng.standard_normal((sample.shape[1], n_hidden))
    output = HIDDEN_SHARE / np.sqrt(n_hidden) * rng.standard_normal((n_hidden, n_bits))
    return {
        "hidden_weights": weights.astype(np.float32),
        "hidden_bias": (-sample.mean(axis=0, dtype=np.float64) @ weights).astype(np.float32),
        "hidden_output": output.astype(np.float32),
    }


def random_start(
    sample: Vectors, n_bits: int, rng: np.random.Generator, *, random_bias: bool = False
) -> Start:
    """Everything random, as in the paper's Algorithm 1; the decoder's bias at the mean."""
    width = sample.shape[1]
    varies = np.ptp(sample, axis=0) > 0
    weights = rng.standard_normal((width, n_bits)) / np.sqrt(width) * varies[:, None]
    variance = float(sample.var(axis=0, dtype=np.float64).mean())
    bias = rng.standard_normal(n_bits) * random_bias
    return Start(
        weights.astype(np.float32),
        bias.astype(np.float32),
        (rng.standard_normal((n_bits, width)) / np.sqrt(n_bits)).astype(np.float32),
        sample.mean(axis=0, dtype=np.float64).astype(np.float32),
        float(np.log(max(variance, NOISE_FLOOR))),
        np.zeros(n_bits, dtype=np.float32),
    )
