"""How alike two images look: structural similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput

#: Side of the window, and the constants of the paper, in shares of the range of values.
WINDOW, LUMINANCE, CONTRAST = 7, 0.01, 0.03
# Images compared at a time: their sums over windows stay small.
_BLOCK = 256


def structural_similarity(
    images: ArrayLike, others: ArrayLike, *, value_range: float = 1.0
) -> NDArray[np.float64]:
    """SSIM of each of `images` (n, height, width[, channels]) with its partner in `others`.

    Means, sample variances and the covariance in every 7 x 7 window that lies within the image, all
    pixels of a window alike; the mean over windows and channels (Wang, Bovik, Sheikh and
    Simoncelli, "Image quality assessment: from error visibility to structural similarity", 2004).
    1 only for equal images.
    """
    one, two = np.asarray(images), np.asarray(others)
    if one.shape != two.shape or one.ndim not in (3, 4) or min(one.shape[1:3]) < WINDOW:
        raise InvalidInput(
            f"images must be pairs (n, height, width[, channels]) of {WINDOW} x {WINDOW} pixels or "
            f"more, got {one.shape} and {two.shape}"
        )
    if not value_range > 0:
        raise InvalidInput(f"value_range must be positive, got {value_range}")
    means = np.empty(len(one))
    for first in range(0, len(one), _BLOCK):
        part = slice(first, first + _BLOCK)
        means[part] = _similarity(one[part], two[part], value_range)
    return means


def _similarity(one: NDArray[Any], two: NDArray[Any], value_range: float) -> NDArray[np.float64]:
    # Variances are differences of squares: without a common mean less of them is lost to rounding.
    centre = float(np.mean(one, dtype=np.float64))
    x, y = (np.asarray(images, dtype=np.float64) - centre for images in (one, two))
    n = WINDOW**2
    x_mean, y_mean = _window_sums(x) / n, _window_sums(y) / n
    x_variance = (_window_sums(x * x) - n * x_mean**2) / (n - 1)
    y_variance = (_window_sums(y * y) - n * y_mean**2) / (n - 1)
    covariance = (_window_sums(x * y) - n * x_mean * y_mean) / (n - 1)
    x_mean, y_mean = x_mean + centre, y_mean + centre
    c1, c2 = (LUMINANCE * value_range) ** 2, (CONTRAST * value_range) ** 2
    alike = (2 * x_mean * y_mean + c1) * (2 * covariance + c2)
    alike /= (x_mean**2 + y_mean**2 + c1) * (x_variance + y_variance + c2)
    return np.asarray(alike.reshape(len(alike), -1).mean(axis=1), dtype=np.float64)


def _window_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over all windows of axes 1 and 2, as differences of running sums."""
    for axis in (1, 2):
        sums = np.cumsum(np.moveaxis(values, axis, -1), axis=-1)
        sums = np.concatenate([np.zeros((*sums.shape[:-1], 1)), sums], axis=-1)
        values = np.moveaxis(sums[..., WINDOW:] - sums[..., :-WINDOW], -1, axis)
    return values
