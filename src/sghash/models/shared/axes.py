"""Principal axes and random rotations, from which several models start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.models.shared.blockwise import single_threaded_blas, sum_over_blocks
from sghash.validation import Vectors

_FLOAT32_EPS = float(np.finfo(np.float32).eps)
_FLOAT64_EPS = float(np.finfo(np.float64).eps)


class PrincipalAxes(NamedTuple):
    """`mean` (d,), orthonormal `axes` (d, r) as columns, `variances` (r,) from large to small."""

    mean: Vectors
    axes: Vectors
    variances: NDArray[np.float64]


def principal_axes(vectors: Vectors, n_axes: int) -> PrincipalAxes:
    """Find the r <= `n_axes` directions of largest variance of vectors (n, d).

    Directions whose variance may be rounding in float32 alone are left out, so r is at
    most the numerical rank of the data, and 0 if all vectors are equal: a sign taken along such a
    direction would be noise. Signs are fixed (largest entry positive), so results repeat.
    """
    n, width = vectors.shape
    mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    if n > width:
        with single_threaded_blas():
            values, axes = np.linalg.eigh(covariance(vectors, mean))
        variances, axes = values[::-1], axes[:, ::-1]
    else:
        # Fewer rows than columns: the singular vectors of the rows are far cheaper.
        centred = (vectors - mean).astype(np.float64)
        with single_threaded_blas():
            _, singular, transposed = np.linalg.svd(centred, full_matrices=False)
        variances, axes = singular**2 / n, transposed.T
    size = float(variances.clip(min=0).sum()) + float(np.square(mean, dtype=np.float64).sum())
    noise = size * max(16 * _FLOAT32_EPS**2, width * _FLOAT64_EPS)
    rank = min(n_axes, int(np.count_nonzero(variances > noise)))
    axes, variances = axes[:, :rank], variances[:rank]
    if rank:
        largest = np.abs(axes).argmax(axis=0)
        axes = axes * np.where(axes[largest, np.arange(rank)] < 0, -1.0, 1.0)
    return PrincipalAxes(mean, np.ascontiguousarray(axes, dtype=np.float32), variances.copy())


def leading_axes(sample: Vectors, n_axes: int, rng: Generator, *, n_rounds: int = 6) -> Vectors:
    """Orthonormal axes (d, r) of largest variance, r <= `n_axes`, by subspace iteration.

    Axes along which the sample hardly varies are left out. Near those of `principal_axes`, and
    cheap for wide vectors, where all eigenvectors would cost more than training.
    """
    n, width = sample.shape
    centred = sample - sample.mean(axis=0)
    n_columns = min(n, width, n_axes + 8)
    basis = np.linalg.qr(rng.standard_normal((width, n_columns)).astype(np.float32))[0]
    # The products of a round cost 2 n columns' worth, those of the covariance n and then a width.
    covariance = centred.T @ centred if n > width // 2 and width > n_columns else None
    for _ in range(n_rounds):
        turned = centred.T @ (centred @ basis) if covariance is None else covariance @ basis
        basis = np.linalg.qr(turned)[0]
    # Rotate the basis of the subspace to its own principal axes.
    inside = (centred @ basis).astype(np.float64)
    variances, turned = np.linalg.eigh(inside.T @ inside / n)
    order = np.argsort(variances)[::-1][:n_axes]
    kept = order[variances[order] > 1e-6 * max(variances.max(), 0.0)]
    axes = (basis @ turned[:, kept]).astype(np.float32)
    # Constant columns carry no weight at all, not even rounding: their values may be huge.
    return axes * (np.ptp(sample, axis=0) > 0)[:, None]


def covariance(vectors: Vectors, mean: Vectors) -> NDArray[np.float64]:
    """Covariance (d, d) of vectors (n, d) around `mean`, in double precision."""

    def of_block(block: Vectors) -> tuple[NDArray[np.float64]]:
        centred = (block - mean).astype(np.float64)
        return (centred.T @ centred,)

    return sum_over_blocks(of_block, vectors)[0] / len(vectors)


def semi_orthogonal(n_rows: int, n_columns: int, rng: Generator) -> NDArray[np.float64]:
    """Draw a random (n_rows, n_columns) matrix whose shorter side is orthonormal, uniformly.

    Square: a random rotation or reflection. Wider than high: R @ R.T is the identity, so that
    x @ R keeps all distances while it spreads x over more columns.
    """
    tall, short = max(n_rows, n_columns), min(n_rows, n_columns)
    if short == 0:
        return np.zeros((n_rows, n_columns))
    q, r = np.linalg.qr(rng.standard_normal((tall, short)))
    # Without this the decomposition's sign convention would favour some rotations.
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return q if n_rows >= n_columns else q.T


def balanced_parts(variances: NDArray[np.float64], widths: list[int]) -> list[NDArray[np.intp]]:
    """Share axes out to parts of given widths so that their products of variances are balanced.

    Eigenvalue allocation (Ge, He, Ke and Sun, CVPR 2013): the largest variance left goes to the
    part with the smallest product so far that is not full.
    """
    logs = np.log(variances)
    logs = logs - logs.min() + 1
    chosen: list[list[int]] = [[] for _ in widths]
    totals = np.where(np.asarray(widths) > 0, 0.0, np.inf)
    for axis, value in enumerate(logs):
        part = int(totals.argmin())
        chosen[part].append(axis)
        totals[part] += value
        if len(chosen[part]) == widths[part]:
            totals[part] = np.inf
    return [np.asarray(part, dtype=np.intp) for part in chosen]
