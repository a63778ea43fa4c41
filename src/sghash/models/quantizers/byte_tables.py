"""Tables of 256 vectors per byte of a code: their start, least squares, and the best codes.

Sums of codewords as in additive quantization (Babenko and Lempitsky, "Additive Quantization for
Extreme Vector Compression", CVPR 2014). Vectors are taken around their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sghash.blocks import blocks_of
from sghash.models.shared.axes import balanced_parts, leading_axes, principal_axes
from sghash.models.shared.blockwise import (
    map_over_blocks,
    single_threaded_blas,
    some_rows,
    sum_over_blocks,
)
from sghash.models.shared.centroids import k_means, nearest
from sghash.validation import Codes, Vectors

#: Least squares draws tables to zero as if each value had been seen so often with nothing left.
RIDGE = 4.0
#: Rows that are improved at a time: their products with all tables should stay near the processor.
BLOCK = 512
#: Rows and iterations of the k-means that the tables start from.
START_ROWS, START_ITERATIONS = 16_384, 6
#: So much of the variance is kept in any case; more in codes of few bytes, which have the time.
KEPT_SHARE, FEW_BYTES, KEPT_SHARE_OF_FEW = 0.96, 8, 0.98
#: Wider vectors are brought to at most `MOST_AXES` axes, found from a sample.
WIDE, MOST_AXES, AXES_ROWS = 1024, 512, 8192
#: Up to so many bytes, encoding goes by the products of all pairs of table rows.
MOST_CROSSED = 16
#: Bytes are chosen anew so often at most, whatever is asked for: nothing changes long before that.
MOST_SWEEPS = 64
#: Directions of the encoder per byte.
DIRECTIONS = 8
#: Axes of tables with less of the tables' energy are rounding.
ROUNDING = 1e-9


Finder = Callable[[Vectors], Codes]


class Axes(NamedTuple):
    """Orthonormal `axes` (d, r) as columns, and the `variances` (r,) of vectors along them."""

    axes: Vectors
    variances: NDArray[np.float64]


def axes_worth_coding(vectors: Vectors, n_bytes: int, rng: Generator) -> Axes:
    """Principal axes of vectors (n, d) of mean zero, without those that get no bits.

    Of a Gaussian, the best code of 8 `n_bytes` bits spends ½ log2(variance / level) bits on an
    axis and none on axes below the level (reverse water-filling). Vectors are no Gaussian: their
    clusters differ along lesser axes too, so a large share of the variance is kept.
    """
    if vectors.shape[1] > WIDE:
        with single_threaded_blas():
            axes = leading_axes(some_rows(vectors, AXES_ROWS, rng), MOST_AXES, rng)
        variances = np.square(vectors @ axes).mean(axis=0, dtype=np.float64)
        axes, variances = axes[:, variances > 0], variances[variances > 0]
    else:
        _, axes, variances = principal_axes(vectors, vectors.shape[1])
    if not len(variances):
        # All vectors are equal: any axis will do, and its variance is not looked at.
        return Axes(np.eye(vectors.shape[1], 1, dtype=np.float32), np.ones(1))
    shares = np.cumsum(variances) / variances.sum()
    kept = KEPT_SHARE_OF_FEW if n_bytes <= FEW_BYTES else KEPT_SHARE
    n_above = int(np.count_nonzero(variances > _water_level(variances, 8 * n_bytes)))
    n_kept = max(n_above, int(np.searchsorted(shares, kept)) + 1)
    return Axes(np.ascontiguousarray(axes[:, :n_kept]), variances[:n_kept])


def _water_level(variances: NDArray[np.float64], n_bits: int) -> float:
    """Level above which the best code of `n_bits` for a Gaussian tells axes apart."""
    logs = np.sort(np.log2(variances))[::-1]
    # With the k largest above the level: sum of logs - k log(level) = 2 n_bits.
    levels = (np.cumsum(logs) - 2 * n_bits) / np.arange(1, len(logs) + 1)
    return float(2 ** levels[np.count_nonzero(logs > levels) - 1])


def start_codes(
    rows: Vectors, variances: NDArray[np.float64], n_bytes: int, rng: Generator
) -> Codes:
    """First codes (n, n_bytes) of rows (n, r) in principal axes: a k-means of some axes per byte.

    Axes are shared out with balanced products of variances, as optimized product quantization
    starts. Where there are more bytes than axes, the others cluster what is left.
    """
    codes = np.zeros((len(rows), n_bytes), dtype=np.uint8)
    n_axes = rows.shape[1]
    widths = [n_axes // n_bytes + (part < n_axes % n_bytes) for part in range(n_bytes)]
    left = rows.copy()
    for part, own in enumerate(balanced_parts(variances, widths)):
        columns = own if len(own) else np.arange(n_axes)
        values = np.ascontiguousarray(left[:, columns])
        sample = some_rows(values, START_ROWS, rng)
        first = sample[rng.choice(len(sample), min(256, len(sample)), replace=False)]
        centroids = k_means(sample, first, START_ITERATIONS, rng)
        codes[:, part] = map_over_blocks(partial(nearest, centroids=centroids), values)
        left[:, columns] -= centroids[codes[:, part]]
    return codes


def decode_tables(codes: Codes, tables: Vectors) -> Vectors:
    """Sums (n, d) of the table rows that codes (n, n_bytes) name."""
    total = tables[0][codes[:, 0]]
    for part in range(1, len(tables)):
        total += tables[part][codes[:, part]]
    return total


def squared_lengths(codes: Codes, tables: Vectors, bias: Vectors) -> Vectors:
    """Squared lengths (n,) of bias (d,) + what codes stand for."""
    from sghash.kernels.learning.clusters import subtract_tables

    lengths = np.empty(len(codes), dtype=np.float32)
    for first, block in blocks_of(codes, BLOCK):
        opposite = np.repeat(-bias[None], len(block), axis=0)
        subtract_tables(opposite, block, tables)
        lengths[first : first + len(block)] = np.einsum("ij,ij->i", opposite, opposite)
    return lengths


def mean_error(vectors: Vectors, codes: Codes, tables: Vectors) -> float:
    """Mean squared distance of vectors (n, d) to what their codes stand for."""

    from sghash.kernels.learning.clusters import subtract_tables

    def of_block(block: Vectors, its_codes: Codes) -> tuple[NDArray[np.float64]]:
        gaps = block.copy()
        subtract_tables(gaps, its_codes, tables)
        return (np.array([np.einsum("ij,ij->", gaps, gaps, dtype=np.float64)]),)

    return float(sum_over_blocks(of_block, vectors, codes)[0][0]) / len(vectors)


def fit_tables(vectors: Vectors, codes: Codes) -> Vectors:
    """Tables (n_bytes, 256, d) of least squared error for vectors (n, d) with given codes.

    Single precision will do: the largest eigenvalue is about n n_bytes / 256, the least `RIDGE`.
    """
    from scipy.linalg import cho_factor, cho_solve

    from sghash.kernels.learning.clusters import add_by_byte, count_pairs

    n_parts, width = codes.shape[1], vectors.shape[1]
    gram = np.zeros((256 * n_parts, 256 * n_parts), dtype=np.float32)
    sums = np.zeros((n_parts, 256, width), dtype=np.float32)
    count_pairs(codes, gram)
    add_by_byte(vectors, codes, sums)
    gram.reshape(-1)[:: len(gram) + 1] += np.float32(RIDGE)
    with single_threaded_blas():
        # The lower triangle by rows is the upper one by columns, which LAPACK takes without a copy.
        factor = cho_factor(gram.T, overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, sums.reshape(-1, width), check_finite=False)
    return np.ascontiguousarray(solved, dtype=np.float32).reshape(n_parts, 256, width)


def improve_codes(vectors: Vectors, codes: Codes, *, tables: Vectors, n_sweeps: int) -> Codes:
    """Choose every byte anew, given the others, until nothing changes or `n_sweeps` are over.

    The error of no row rises. Costs one product of the residuals with all tables, and then little
    but for bytes that change.
    """
    from sghash.kernels.learning.clusters import subtract_tables
    from sghash.kernels.learning.descent import descend_bytes

    with single_threaded_blas():
        cross = _cross(tables)
    turned = np.ascontiguousarray(tables.reshape(-1, tables.shape[2]).T)
    sweeps = min(n_sweeps, MOST_SWEEPS)

    def improve(rows: Vectors, its_codes: Codes) -> Codes:
        better = its_codes.copy()
        for first, block in blocks_of(rows, BLOCK):
            here = better[first : first + len(block)]
            residuals = block.copy()
            subtract_tables(residuals, here, tables)
            descend_bytes(residuals @ turned, here.copy(), cross, here, sweeps)
        return better

    return map_over_blocks(improve, vectors, codes)


def code_finder(tables: Vectors, guess: Finder, n_sweeps: int, *, many: bool) -> Finder:
    """Return what finds codes (n, n_bytes) of a small block of vectors (n, d).

    They begin as what `guess` says of the block. Then every byte is chosen given the others,
    `n_sweeps` times or until nothing changes, by products with one table after the other. With
    `many` rows, codes of few bytes are swept so once, and go on from there by the products of all
    pairs of table rows; those of long codes would not stay near the processor.
    """
    from sghash.kernels.learning.clusters import subtract_tables
    from sghash.kernels.learning.descent import choose_bytes, descend_bytes

    with single_threaded_blas():
        own = [_own_scores(table) for table in tables]
        turned = [np.ascontiguousarray(table.T) for table in tables]
        cross = _cross(tables) if many and len(tables) <= MOST_CROSSED else None

    def find(block: Vectors) -> Codes:
        before = guess(block)
        codes, residuals = np.ascontiguousarray(before.T), block.copy()
        subtract_tables(residuals, before, tables)
        products = np.empty((len(block), len(tables), 256), dtype=np.float32)
        for _ in range(min(n_sweeps, MOST_SWEEPS)):
            swept = codes.copy()
            for part, table in enumerate(tables):
                np.matmul(residuals, turned[part], out=products[:, part])
                choose_bytes(products, part, own[part], table, residuals, codes[part])
            if np.array_equal(codes, swept):
                break
            if cross is not None and n_sweeps > 1:
                found = np.ascontiguousarray(codes.T)
                slopes = products.reshape(len(block), -1)
                descend_bytes(slopes, before, cross, found, min(n_sweeps, MOST_SWEEPS) - 1)
                return found
        return np.ascontiguousarray(codes.T)

    return find


def in_small_blocks(function: Finder, vectors: Vectors) -> Codes:
    """Join `function` over blocks of rows that stay near the processor, on all cores."""

    def of_block(rows: Vectors) -> Codes:
        return np.concatenate([function(block) for _, block in blocks_of(rows, BLOCK)])

    return map_over_blocks(of_block, vectors)


def _cross(tables: Vectors) -> Vectors:
    flat = tables.reshape(-1, tables.shape[2])
    return flat @ flat.T


def _own_scores(table: Vectors) -> Vectors:
    """|T[v]|² / 2 - T[u] . T[v] for a table's rows (256, 256)."""
    dots = table @ table.T
    return np.diag(dots) / np.float32(2) - dots


def guess_by_signs(weights: Vectors, offset: Vectors) -> Finder:
    """Return what guesses codes as the signs of x @ weights (d, 8 n_bytes) + offset."""
    return lambda block: np.packbits(block @ weights + offset > 0, axis=1)


def guess_by_directions(tables: Vectors, weights: Vectors) -> Finder:
    """Return what guesses each byte by itself: its nearest row of `tables` along its directions.

    Its directions are the eight columns of `weights` (d, 8 n_bytes) that belong to it.
    """
    parts = [slice(DIRECTIONS * part, DIRECTIONS * (part + 1)) for part in range(len(tables))]
    rows = [table @ weights[:, own] for table, own in zip(tables, parts, strict=True)]
    # |T|² / 2 - p . T as one product: a ninth number of every row, 1.
    turned = [np.vstack([-own.T, np.square(own).sum(axis=1) / np.float32(2)]) for own in rows]

    def guess(block: Vectors) -> Codes:
        seen = np.ones((len(block), len(tables), DIRECTIONS + 1), dtype=np.float32)
        seen[:, :, :DIRECTIONS] = (block @ weights).reshape(len(block), -1, DIRECTIONS)
        codes = np.empty((len(block), len(tables)), dtype=np.uint8)
        for part, table in enumerate(turned):
            codes[:, part] = (seen[:, part] @ table).argmin(axis=1)
        return codes

    return guess


def centred_tables(tables: Vectors, codes: Codes) -> tuple[Vectors, Vectors]:
    """Tables whose rows are zero on average over codes, and what has to be added to every sum."""
    means = np.stack(
        [
            np.bincount(codes[:, part], minlength=256) @ table / len(codes)
            for part, table in enumerate(tables)
        ]
    )
    centred = (tables - means[:, None]).astype(np.float32)
    return centred, means.sum(axis=0).astype(np.float32)


def encoder_directions(tables: Vectors) -> Vectors:
    """Directions (d, 8 n_bytes) along which tables vary most, eight per byte.

    They are orthonormal within a byte; zero where a table does not vary.
    """
    n_parts, _, width = tables.shape
    weights = np.zeros((width, n_parts, DIRECTIONS), dtype=np.float32)
    for part, table in enumerate(tables):
        wide = table.astype(np.float64)
        values, axes = np.linalg.eigh(wide.T @ wide)
        used = int(np.count_nonzero(values[-DIRECTIONS:] > ROUNDING * max(values[-1], 1e-300)))
        if used:
            weights[:, part, :used] = axes[:, -used:][:, ::-1]
    return weights.reshape(width, -1)


def axes_of_tables(tables: Vectors) -> Vectors | None:
    """Orthonormal axes (d, r) that all tables lie in; None where it saves nothing to know them."""
    flat = tables.reshape(-1, tables.shape[2])
    if flat.shape[1] > WIDE:
        return None
    wide = flat.astype(np.float64)
    with single_threaded_blas():
        values, axes = np.linalg.eigh(wide.T @ wide)
    used = int(np.count_nonzero(values > ROUNDING * values.sum()))
    if used > 0.9 * flat.shape[1]:
        return None
    return np.ascontiguousarray(axes[:, ::-1][:, :used], dtype=np.float32)
