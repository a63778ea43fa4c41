"""The steps of learning by their formulas, in double precision; arrays are filled in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def pack_signs(scores: Array, bias: Array, codes: Array) -> bool:
    """Write [score + bias > 0] to `codes`, columns reversed within bytes; say if all are finite."""
    total = scores + bias
    codes[:] = np.packbits(total > 0, axis=1, bitorder="little")
    return bool(np.isfinite(total).all())


def _mixed(word: Array) -> Array:
    """Scramble 32 bits (the finaliser of MurmurHash3), in 64-bit numbers."""
    word = word.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return word


def draw_codes(
    logits: Array,
    bias: Array,
    mode: int,
    signed: bool,
    keys: Array,
    first_row: int,
    probabilities: Array,
    codes: Array,
) -> None:
    """Add `bias` to `logits`; codes are drawn (mode 0), the mean (1) or the likelier value (2)."""
    logits += bias
    probabilities[:] = 1 / (1 + np.exp(-logits.astype(np.float64)))
    if mode == 0:
        first, second = (key.astype(np.uint64) for key in keys)
        rows = first_row + np.arange(len(logits), dtype=np.uint64)
        row_keys = _mixed(_mixed(rows ^ first) + second)
        columns = np.arange(logits.shape[1], dtype=np.uint64) * np.uint64(0x9E3779B9)
        words = _mixed(row_keys[:, None] + columns)
        bits = (words >> np.uint64(8)) / 2**24 < probabilities
    elif mode == 1:
        bits = probabilities
    else:
        bits = probabilities >= 0.5
    codes[:] = 2 * bits.astype(np.float32) - 1 if signed else bits


def finish_residual(
    residual: Array, bias: Array, vectors: Array, sums: Array, squares: Array
) -> None:
    """Turn h U into r = alpha + h U - x; add up r and r² by column."""
    residual += bias - vectors.astype(np.float64)
    sums[:] = residual.sum(axis=0, dtype=np.float64)
    squares[:] = np.square(residual, dtype=np.float64).sum(axis=0)


def logit_gradient(
    slopes: Array,
    logits: Array,
    probabilities: Array,
    codes: Array,
    prior_logits: Array,
    linear: float,
    quadratic: Array,
    signed: bool,
    kl_weight: float,
    scale: float,
    variance_sums: Array,
    bias_gradient: Array,
    prior_gradient: Array,
) -> None:
    """Turn r U^T into `scale` p (1 - p) (D + kl_weight (logit - prior)), and sum by column."""
    p = probabilities.astype(np.float64)
    variances = p * (1 - p)
    step = 2 if signed else 1
    above = codes.astype(np.float64) + (1 if signed else 0)
    difference = linear * slopes + quadratic * (1 - 2 * above / step)
    gradient = scale * variances * (difference + kl_weight * (logits - prior_logits))
    slopes[:] = gradient
    bias_gradient[:] = gradient.sum(axis=0)
    variance_sums[:] = step**2 * variances.sum(axis=0)
    prior_gradient[:] = -scale * p.sum(axis=0)


def adam_update(
    values: Array,
    gradient: Array,
    first: Array,
    second: Array,
    rate: float,
    beta1: float,
    beta2: float,
) -> None:
    """One step of Adam; `rate` already holds the bias correction."""
    g = gradient.astype(np.float64)
    first[:] = beta1 * first.astype(np.float64) + (1 - beta1) * g
    second[:] = beta2 * second.astype(np.float64) + (1 - beta2) * g * g
    values -= (rate * first / (np.sqrt(second) + 1e-8)).astype(values.dtype)


def gather_rows(vectors: Array, rows: Array, shift: Array, factor: float, out: Array) -> None:
    """Fill `out` with (row - `shift`) * `factor` of the chosen `rows`."""
    out[:] = (vectors[rows].astype(np.float32) - shift) * np.float32(factor)


def hidden_units(values: Array, bias: Array) -> None:
    """Turn x V into relu(x V + `bias`)."""
    total = values[:, : len(bias)] + bias
    values[:, : len(bias)] = np.where(total < 0, 0, total)


def hidden_gradient(slopes: Array, units: Array, bias_gradient: Array) -> None:
    """Set `slopes` to zero where `units` are zero; sum the others by column."""
    slopes *= units > 0
    bias_gradient[:] = slopes.sum(axis=0, dtype=np.float64)


def softmax_gradient(
    products: Array, anchors: Array, positives: Array, scale: float, n_bits: int, weight: float
) -> tuple[float, float]:
    """Turn products into the gradient of `weight` * the summed loss; return it and d scale."""
    loss = by_scale = 0.0
    for i, (anchor, positive) in enumerate(zip(anchors, positives, strict=True)):
        own = products[i].astype(np.float64)
        logits = scale * own
        logits[anchor] = -np.inf
        largest = logits.max()
        total = np.exp(logits - largest).sum()
        shares = np.exp(logits - largest) / total
        loss += np.log(total) + largest - logits[positive]
        by_scale += shares @ own - own[positive]
        shares[positive] -= 1
        products[i] = weight * scale * shares
    return weight * loss, weight * by_scale


def signs_of(logits: Array, codes: Array) -> None:
    """Fill `codes` with +1 where `logits` are positive, else -1."""
    codes[:] = np.where(logits > 0, 1, -1)


def through_signs(by_codes: Array, probabilities: Array) -> None:
    """Turn a gradient by codes into one by logits, as if a code were its mean 2p - 1."""
    by_codes *= 2 * probabilities * (1 - probabilities)


def unit_lengths(vectors: Array, out: Array) -> None:
    """Fill `out` with the rows divided by their length; zero rows stay zero."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    out[:] = vectors / np.where(lengths == 0, 1, lengths)


def best_others(scores: Array, own: Array, candidates: Array, found: Array) -> None:
    """Fill `found` with the candidates of the highest scores, the row's own left out."""
    for i, row in enumerate(scores):
        others = np.flatnonzero(candidates != own[i])
        best = others[np.argsort(-row[others], kind="stable")][: found.shape[1]]
        found[i] = -1
        found[i, : len(best)] = candidates[best]


def two_best(scores: Array, halves: Array, first: Array, second: Array) -> None:
    """Fill in the columns of the highest and second highest of `scores` - `halves`."""
    order = np.argsort(halves - scores, axis=1, kind="stable")
    first[:], second[:] = order[:, 0], order[:, min(1, order.shape[1] - 1)]


def join_neighborhoods(
    vectors: Array, halves: Array, neighborhoods: Array, first: int, found: Array
) -> int:
    """Fill `found` with the nearest among the neighbours, and theirs, of each row."""
    n_scores = 0
    for at in range(len(found)):
        row = first + at
        known = [j for j in neighborhoods[row] if j >= 0]
        reached = [c for middle in [row, *known] for c in neighborhoods[middle]]
        candidates = [c for c in dict.fromkeys(reached) if c >= 0 and c != row]
        scores = [float(vectors[row] @ vectors[c] - halves[c]) for c in candidates]
        best = np.argsort(-np.asarray(scores), kind="stable")[: found.shape[1]]
        found[at] = -1
        found[at, : len(best)] = np.asarray(candidates, dtype=np.int64)[best]
        n_scores += len(candidates)
    return n_scores


def add_to_clusters(scores: Array, rows: Array, sizes: Array, sums: Array) -> float:
    """Add each row to the cluster of its lowest score; return the sum of the lowest scores."""
    best = scores.argmin(axis=1)
    np.add.at(sizes, best, 1)
    np.add.at(sums, best, rows)
    return float(scores.min(axis=1).sum(dtype=np.float64))


def move(
    centroids: Array,
    means: Array,
    weights: Array,
    wanted: Array,
    affinity_weight: float,
    n_steps: int,
) -> None:
    """Move centroids one by one to the weighted mean that lowers the bound, `n_steps` times.

    Without the early end of the fast one: it stops where a step no longer changes anything.
    """
    for j in np.flatnonzero(weights):
        pull = 2 * affinity_weight * weights
        pull[j] = 0
        for _ in range(n_steps):
            gaps = centroids[j] - centroids
            lengths = np.linalg.norm(gaps, axis=1)
            targets = centroids + (wanted[j] / np.where(lengths > 0, lengths, 1))[:, None] * gaps
            centroids[j] = (means[j] + pull @ targets) / (1 + pull.sum())


def descend_bits(gram: Array, targets: Array, codes: Array, sweeps: int) -> Array:
    """Lower z K z - 2 a z bit by bit until a sweep changes nothing; return it for every row."""
    scores = np.empty(len(codes))
    for row, (z, a) in enumerate(zip(codes, targets, strict=True)):
        for _ in range(sweeps):
            before = z.copy()
            for j in range(len(z)):
                others = gram[j] @ z - gram[j, j] * z[j]
                z[j] = a[j] - others - gram[j, j] / 2 > 0
            if (z == before).all():
                break
        scores[row] = z @ gram @ z - 2 * (a @ z)
    return scores


def descend_codes(
    slopes: Array, gram: Array, prior: Array, codes: Array, signed: bool, n_sweeps: int
) -> None:
    """Improve codes h bit by bit until a sweep changes nothing; slopes stay U (x - alpha) - h K."""
    low, middle = (-1, 0) if signed else (0, 0.5)
    for h, slope in zip(codes, slopes, strict=True):
        target = slope + h @ gram
        for _ in range(n_sweeps):
            before = h.copy()
            for k in range(len(h)):
                evidence = (target - h @ gram)[k] + gram[k, k] * (h[k] - middle) + prior[k]
                h[k] = 1 if evidence > 0 else low
            if (h == before).all():
                break
        slope[:] = target - h @ gram


def descend_bytes(slopes: Array, before: Array, cross: Array, codes: Array, n_sweeps: int) -> int:
    """Lower |x - sum_j T_j[h_j]|² byte by byte until a sweep changes nothing; ties stay."""
    n_changes, n_parts = 0, codes.shape[1]
    blocks = [256 * part + np.arange(256) for part in range(n_parts)]
    for h, was, kept in zip(codes, before, slopes, strict=True):
        slope = kept.copy()
        for part, here in enumerate(blocks):
            for late in range(part, n_parts):
                slope[here] += cross[256 * late + int(was[late]), here]
                slope[here] -= cross[256 * late + int(h[late]), here]
        for _ in range(n_sweeps):
            start = h.copy()
            for part, here in enumerate(blocks):
                kept[here] = slope[here]
                old = 256 * part + int(h[part])
                errors = cross[here, here] / 2 - slope[here] - cross[old, here]
                if errors.min() < errors[h[part]]:
                    h[part] = errors.argmin()
                    slope += cross[old] - cross[256 * part + int(h[part])]
                    n_changes += 1
            if (h == start).all():
                break
    return n_changes


def choose_bytes(
    products: Array, part: int, own: Array, table: Array, residuals: Array, values: Array
) -> int:
    """Replace one byte of every row by the value of least squared error; ties stay."""
    errors = own[values] - products[:, part]
    rows = np.arange(len(values))
    old = values.copy()
    values[:] = np.where(errors.min(axis=1) < errors[rows, old], errors.argmin(axis=1), old)
    residuals += table[old] - table[values]
    return int((values != old).sum())


def add_by_byte(vectors: Array, codes: Array, sums: Array) -> None:
    """Add every row to the sums (B, 256, d) of its bytes' values."""
    for vector, code in zip(vectors, codes, strict=True):
        for part, value in enumerate(code):
            sums[part, value] += vector


def subtract_tables(vectors: Array, codes: Array, tables: Array) -> None:
    """Subtract the table rows that codes name, byte by byte."""
    for part, table in enumerate(tables):
        vectors -= table[codes[:, part]]


def count_pairs(codes: Array, counts: Array) -> None:
    """Count values that bytes have together, for each pair of bytes once."""
    for code in codes.astype(np.int64):
        for part in range(len(code)):
            for other in range(part + 1):
                counts[256 * part + code[part], 256 * other + code[other]] += 1
