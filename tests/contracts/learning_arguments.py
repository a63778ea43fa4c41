"""Arguments for the kernels of training and encoding, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sghash.kernels.learning.training import DRAW, MEAN, ROUND
from tests.contracts.search_arguments import Arguments, Rng, floats, whole


def signs(rng: Rng) -> Arguments:
    n, n_bytes = int(rng.choice([1, 17, 60])), int(rng.choice([1, 2, 9]))
    scores = whole(rng, n, 8 * n_bytes, size=2)
    if rng.random() < 0.3:
        scores[rng.integers(n), 3] = rng.choice([np.nan, np.inf])
    codes = np.empty((n, n_bytes), dtype=np.uint8)
    return (scores, whole(rng, 8 * n_bytes, size=2), codes), {}


def draws(rng: Rng) -> Arguments:
    logits, mode = 3 * floats(rng, 20, 9), int(rng.choice([DRAW, MEAN, ROUND]))
    keys = rng.integers(0, 2**32, 2, dtype=np.uint32)
    filled = np.empty_like(logits), np.empty_like(logits)
    first_row = int(rng.choice([0, 1000]))
    return (logits, floats(rng, 9), mode, bool(rng.random() < 0.5), keys, first_row, *filled), {}


def residuals(rng: Rng) -> Arguments:
    return (floats(rng, 20, 7), floats(rng, 7), floats(rng, 20, 7), *np.empty((2, 7), "f4")), {}


def slopes(rng: Rng) -> Arguments:
    signed = bool(rng.random() < 0.5)
    p = rng.random((20, 6), dtype=np.float32)
    bits = (rng.random((20, 6)) < p).astype(np.float32)
    codes = 2 * bits - 1 if signed else bits
    numbers = (codes, floats(rng, 6), 0.7, floats(rng, 6), signed, 0.3, 1 / 20)
    return (floats(rng, 20, 6), floats(rng, 20, 6), p, *numbers, *np.empty((3, 6), "f4")), {}


def adam(rng: Rng) -> Arguments:
    return (*floats(rng, 3, 50), np.square(floats(rng, 50)), 0.01, 0.9, 0.999), {}


def units(rng: Rng) -> Arguments:
    n, n_units, beyond = (int(rng.integers(low, 30)) for low in (1, 1, 0))
    values = whole(rng, n, n_units + beyond)
    values[rng.random(values.shape) < 0.1] = np.nan
    return (values, whole(rng, n_units)), {}


def unit_slopes(rng: Rng) -> Arguments:
    n, n_units = (int(rng.integers(1, 30)) for _ in range(2))
    held = np.maximum(whole(rng, n, n_units), 0)
    return (whole(rng, n, n_units), held, whole(rng, n_units)), {}


def gathered(rng: Rng) -> Arguments:
    vectors = whole(rng, 30, 6, kind=rng.choice([np.float32, np.float64, np.uint8]))
    rows = rng.integers(0, 30, 12)
    return (vectors, rows, whole(rng, 6), 0.5, np.empty((12, 6), dtype=np.float32)), {}


def ranked(rng: Rng) -> Arguments:
    n_bits, candidates = int(rng.choice([1, 16, 64])), 9
    codes = rng.choice(np.float32([-1, 1]), (candidates, n_bits))
    anchors = rng.permutation(candidates)[:4]
    positives = (anchors + rng.integers(1, candidates, 4)) % candidates
    return (codes[anchors] @ codes.T, anchors, positives, 0.1, n_bits, 1.5), {}


def clusters(rng: Rng) -> Arguments:
    return (whole(rng, 40, 5), whole(rng, 40, 3), np.zeros(5), np.zeros((5, 3))), {}


def moves(rng: Rng) -> Arguments:
    weights = rng.dirichlet(np.ones(8))
    weights[rng.integers(8)] = 0
    wanted = np.abs(rng.standard_normal((8, 8)))
    centroids, means = rng.standard_normal((2, 8, 3))
    return (centroids, means, weights, wanted + wanted.T, float(rng.choice([0, 4.0])), 20), {}


def gram_of(rng: Rng, n_bits: int) -> Any:
    directions = whole(rng, n_bits, 4, size=2)
    return directions @ directions.T


def bits_to_descend(rng: Rng) -> Arguments:
    start = rng.choice(np.float32([0, 0.5, 1]), (12, 7))
    return (gram_of(rng, 7), whole(rng, 12, 7, size=9), start, int(rng.choice([1, 20]))), {}


def codes_to_descend(rng: Rng) -> Arguments:
    signed = bool(rng.random() < 0.5)
    codes = rng.choice(np.float32([-1 if signed else 0, 1]), (12, 7))
    given = whole(rng, 12, 7, size=9), gram_of(rng, 7), whole(rng, 7)
    return (*given, codes, signed, int(rng.choice([0, 1, 20]))), {}


def bytes_to_descend(rng: Rng) -> Arguments:
    tables, vectors = whole(rng, 3 * 256, 5, size=3), whole(rng, 6, 5, size=8)
    before, codes = rng.integers(0, 256, (2, 6, 3), dtype=np.uint8)
    if rng.random() < 0.5:
        before = codes.copy()
    slopes = np.empty((6, 3 * 256), dtype=np.float32)
    for part in range(3):
        here = slice(256 * part, 256 * part + 256)
        then = np.hstack([codes[:, :part], before[:, part:]])
        residuals = vectors - tables[then + 256 * np.arange(3)].sum(axis=1)
        slopes[:, here] = residuals @ tables[here].T
    return (slopes, before, tables @ tables.T, codes, int(rng.choice([1, 2, 5]))), {}


def bytes_to_choose(rng: Rng) -> Arguments:
    table, values = whole(rng, 256, 5, size=3), rng.integers(0, 256, 6, dtype=np.uint8)
    residuals, dots = whole(rng, 6, 5, size=8), table @ table.T
    products, part = whole(rng, 6, 3, 256), int(rng.integers(3))
    products[:, part] = residuals @ table.T
    own = np.diag(dots) / np.float32(2) - dots
    return (products, part, own, table, residuals, values), {}


def sums_by_byte(rng: Rng) -> Arguments:
    n, width = int(rng.choice([1, 40, 600])), int(rng.choice([1, 5]))
    codes = rng.integers(0, int(rng.choice([2, 256])), (n, 3), dtype=np.uint8)
    return (whole(rng, n, width), codes, np.zeros((3, 256, width), dtype=np.float32)), {}


def rows_of_tables(rng: Rng) -> Arguments:
    n, width = int(rng.choice([1, 40, 600])), int(rng.choice([1, 5]))
    codes = rng.integers(0, 256, (n, 3), dtype=np.uint8)
    return (whole(rng, n, width), codes, whole(rng, 3, 256, width)), {}


def pairs(rng: Rng) -> Arguments:
    codes = rng.integers(0, int(rng.choice([2, 256])), (40, 2), dtype=np.uint8)
    return (codes, np.zeros((512, 512), dtype=np.float32)), {}


def logits_to_sign(rng: Rng) -> Arguments:
    return (whole(rng, 7, 9, size=2), np.empty((7, 9), np.float32)), {}


def gradients_to_pass(rng: Rng) -> Arguments:
    p = rng.random((7, 9), dtype=np.float32)
    return (whole(rng, 7, 9, size=4), p), {}


def rows_to_unit(rng: Rng) -> Arguments:
    rows = whole(rng, 7, 9, size=4)
    rows[3] = 0
    return (rows, np.empty_like(rows)), {}


def scores_of_others(rng: Rng) -> Arguments:
    n = int(rng.choice([3, 70, 200]))
    candidates = rng.permutation(300)[:n]
    own = rng.choice(300, 5)
    own[0] = candidates[1]
    return (whole(rng, 5, n, size=3), own, candidates, np.empty((5, 4), np.int64)), {}


def scores_of_cells(rng: Rng) -> Arguments:
    first, second = np.empty(8, np.int64), np.empty(8, np.int64)
    return (whole(rng, 8, 9, size=5), whole(rng, 9, 1, size=3)[:, 0], first, second), {}


def known_neighbors(rng: Rng) -> Arguments:
    others = (
        np.arange(20)[:, None] + 1 + rng.permuted(np.tile(np.arange(19), (20, 1)), axis=1)
    ) % 20
    known = others[:, :4]
    known[5, 2:] = -1
    halves = whole(rng, 20, 1, size=3)[:, 0]
    return (whole(rng, 20, 6, size=4), halves, known, 3, np.empty((9, 4), np.int64)), {}


LESSONS: dict[str, Callable[[Rng], Arguments]] = {
    "pack_signs": signs,
    "draw_codes": draws,
    "finish_residual": residuals,
    "logit_gradient": slopes,
    "adam_update": adam,
    "gather_rows": gathered,
    "hidden_units": units,
    "hidden_gradient": unit_slopes,
    "softmax_gradient": ranked,
    "signs_of": logits_to_sign,
    "through_signs": gradients_to_pass,
    "unit_lengths": rows_to_unit,
    "best_others": scores_of_others,
    "two_best": scores_of_cells,
    "join_neighborhoods": known_neighbors,
    "add_to_clusters": clusters,
    "add_by_byte": sums_by_byte,
    "subtract_tables": rows_of_tables,
    "count_pairs": pairs,
    "move": moves,
    "descend_bits": bits_to_descend,
    "descend_codes": codes_to_descend,
    "descend_bytes": bytes_to_descend,
    "choose_bytes": bytes_to_choose,
}
