"""Every fast kernel gives what its twin in `reference` gives, and every fast kernel has a twin.

Inputs are small and mostly whole numbers: sums are then exact in any order, and ties are plenty.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import kernels
from sghash.index.lists.arranged import arrange
from sghash.index.lists.centroids import Partitions
from sghash.index.rows import RowIds
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.learning.training import DRAW, MEAN, ROUND
from sghash.kernels.multi.layout import build_tables
from sghash.kernels.partitions import search as lists_kernel
from sghash.kernels.partitions.coarse import TOGETHER
from sghash.kernels.reference import TWINS, small
from sghash.kernels.tables.rescoring import nibble_tables
from sghash.kernels.tables.search import make_terms
from sghash.kernels.tables.terms import code_terms, gram_tables
from sghash.kernels.vectors.kinds import KINDS, SMALL
from sghash.kernels.vectors.stored import HALVES

Rng = np.random.Generator
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
THREADS = (1, 2, 3)
#: Numbers of a vector of a small kind: less than a piece of a row, one, several, and odd.
WIDTHS = (1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 100, 129, 384)

#: Public functions that need no twin: NumPy themselves, or parts of kernels that have one.
PARTS = {
    "hamming.search": {"scanner", "scan_all"},
    "hamming.shortlist": {"with_ties"},
    "tables.search": {"make_terms"},
    "tables.rescoring": {"nibble_tables", "linear_score", "kth_smallest"},
    "tables.terms": {"gram_tables", "code_term"},
    "multi.joining": {"join_cost"},
    "learning.projection": {"arrange"},
    "learning.training": {"exponential"},
    "vectors.stored": {"row_sums", "as_vectors"},
    "vectors.small": {"check_small", "level_of", "level_at", "centred", "float_at"},
}
#: Modules that hold loops and pieces of the kernels in `TWINS`, or nothing compiled.
INNER = {
    "checks", "compiling", "counted", "lanes", "threads",
    "hamming.direct", "hamming.plane_sums", "hamming.selection", "hamming.single", "hamming.sliced",
    "hamming.staging", "hamming.tiles",
    "tables.best_rows", "tables.byte_lanes", "tables.byte_scans", "tables.nibbles",
    "tables.scans", "tables.selection",
    "multi.layout", "multi.probing",
    "partitions.block_lanes", "partitions.calling", "partitions.coarse", "partitions.layout",
    "partitions.kept", "partitions.rounding",
    "vectors.comparing", "vectors.kinds", "vectors.rotation",
}  # fmt: skip
#: Kernels that round otherwise than their twins: relative and absolute tolerance.
CLOSE = {"kept_distances", "draw_codes", "finish_residual", "logit_gradient", "adam_update"}
CLOSE |= {"softmax_gradient", "through_signs", "unit_lengths", "move"}


def whole(rng: Rng, *shape: int, size: int = 4, kind: Any = np.float32) -> Any:
    return rng.integers(-size, size + 1, shape).astype(kind)


def some_codes(rng: Rng, n: int, n_bits: int) -> Any:
    bits = rng.random((int(rng.choice([2, n])), n_bits)) < 0.5
    return np.packbits(bits[rng.integers(0, len(bits), n)], axis=1)


def sizes(rng: Rng) -> tuple[int, int, int, dict[str, Any]]:
    """Rows, queries, neighbours, and the options of a search."""
    n = int(rng.choice([1, 2, 63, 64, 65, 300]))
    share = rng.choice([None, 0.0, 0.05, 0.6])
    mask = None if share is None else rng.random(n) < share
    options = {"mask": mask, "threads": int(rng.choice(THREADS))}
    return n, int(rng.choice([1, 2, 9, 40, 70])), int(rng.choice([1, 10, 33, n, n + 3])), options


def hamming(rng: Rng) -> Arguments:
    n, n_queries, k, options = sizes(rng)
    n_bits = int(rng.choice([1, 8, 13, 64, 65, 128, 300]))
    codes, queries = some_codes(rng, n, n_bits), some_codes(rng, n_queries, n_bits)
    return (codes, queries, k), {"n_bits": n_bits, **options}


def byte_tables(rng: Rng) -> Arguments:
    n, n_queries, k, options = sizes(rng)
    n_bytes, size = int(rng.choice([1, 3, 8, 11, 16])), int(rng.choice([2, 256]))
    tables = whole(rng, n_queries, n_bytes, size)
    if rng.random() < 0.5:
        tables += rng.standard_normal(tables.shape, dtype=np.float32)
    return (rng.integers(0, size, (n, n_bytes), dtype=np.uint8), tables, k), options


def bit_tables(rng: Rng) -> tuple[Any, Any, Any, int, dict[str, Any]]:
    """Codes, tables, tables of codes' own terms, neighbours, options."""
    n, n_queries, k, options = sizes(rng)
    n_bits = int(rng.choice([1, 8, 13, 64, 65, 130]))
    codes = some_codes(rng, n, n_bits)
    tables = nibble_tables(whole(rng, n_queries, n_bits, kind=np.float64), codes.shape[1])
    directions = whole(rng, n_bits, 2, size=1, kind=np.float64)
    return codes, tables, gram_tables(directions @ directions.T, codes.shape[1]), k, options


def asymmetric(rng: Rng) -> Arguments:
    codes, tables, gram, k, options = bit_tables(rng)
    terms = make_terms(code_terms(codes, gram), gram) if rng.random() < 0.5 else None
    return (codes, tables, k), {"terms": terms, **options}


def rescored(rng: Rng) -> Arguments:
    codes, tables, gram, _, options = bit_tables(rng)
    rows = rng.integers(-1, len(codes), (len(tables), 40))
    used = gram if rng.random() < 0.5 else None
    return (codes, rows, tables, used), {"threads": options["threads"]}


def places(rng: Rng) -> Arguments:
    scores = whole(rng, 3, 60)
    scores[rng.random(scores.shape) < 0.1] = rng.choice([np.nan, np.inf])
    return (scores, int(rng.choice([0, 1, 30, 40, 60]))), {}


def terms(rng: Rng) -> Arguments:
    codes, _, gram, _, options = bit_tables(rng)
    return (codes, gram), {"threads": options["threads"]}


def exact(rng: Rng) -> Arguments:
    n, n_queries, k, options = sizes(rng)
    metric = str(rng.choice(["l2", "ip", "cosine"]))
    vectors, queries = whole(rng, n, 5), whole(rng, n_queries, 5)
    return (vectors, queries, k), {"metric": metric, "threads": options["threads"]}


def kept(rng: Rng) -> Arguments:
    (vectors, queries, _), options = exact(rng)
    rows = rng.integers(-1, len(vectors), (len(queries), 20))
    kind = str(rng.choice(list(KINDS)))
    if kind not in SMALL:
        return (vectors.astype(kind), rows, queries, options["metric"]), {
            "threads": options["threads"]
        }
    width = int(rng.choice(WIDTHS))
    stored = small.shrink(floats(rng, len(vectors), width), kind)
    queries = floats(rng, len(queries), width)
    return (stored, rows, queries, options["metric"]), {"threads": options["threads"]}


def vectors_to_shrink(rng: Rng) -> Arguments:
    n, width = int(rng.choice([1, 2, 30])), int(rng.choice(WIDTHS))
    vectors = floats(rng, n, width) * np.float32(rng.choice([1, 1e-20, 1e20]))
    if rng.random() < 0.5:
        vectors[0] = rng.choice([0, 3, -1e30])
        vectors[-1, 1:] = 0
    kind, threads = str(rng.choice(SMALL)), int(rng.choice(THREADS))
    return (vectors, kind), {"threads": threads}


def rows_to_grow(rng: Rng) -> Arguments:
    (vectors, kind), options = vectors_to_shrink(rng)
    return (small.shrink(vectors, kind), vectors.shape[1]), options


def tabled(rng: Rng) -> tuple[Any, Any, int, dict[str, Any]]:
    """Tables of earlier codes, the codes of now, bits, and what became of the earlier rows."""
    n, n_bits = int(rng.choice([1, 2, 65, 300])), int(rng.choice([8, 13, 64, 77, 130]))
    earlier = some_codes(rng, n, n_bits)
    tables = build_tables(earlier, n_bits, int(rng.integers(1, min(n_bits, 5) + 1)))
    if rng.random() < 0.5:
        return tables, earlier, n_bits, {}
    left = rng.random(n) < 0.8
    codes = np.concatenate([earlier[left], some_codes(rng, 9, n_bits)])
    now = np.where(left, np.cumsum(left) - 1, -1)
    return tables, codes, n_bits, {"now": now, "n_known": int(left.sum())}


def looked_up(rng: Rng) -> Arguments:
    tables, codes, n_bits, moved = tabled(rng)
    mask = rng.random(len(codes)) < 0.5 if rng.random() < 0.5 else None
    queries = np.concatenate([codes[:2], some_codes(rng, 3, n_bits)])
    asked = int(rng.choice([0, 1, 3, 10]))
    options = {"mask": mask, "threads": int(rng.choice(THREADS)), **moved}
    return (tables, codes, queries, asked), options


def looked_up_nearest(rng: Rng) -> Arguments:
    (*given, asked), options = looked_up(rng)
    return (*given, asked + 1), options


def joined(rng: Rng) -> Arguments:
    tables, codes, _, moved = tabled(rng)
    while moved:
        tables, codes, _, moved = tabled(rng)
    return (tables, codes, int(rng.choice([0, 1, 4, 20]))), {"threads": int(rng.choice(THREADS))}


def listed(rng: Rng) -> Arguments:
    """Rows in lists, some of them in two, and queries of every kind."""
    n, n_lists, width = (
        int(rng.choice(some)) for some in ([1, 2, 65, 400], [1, 3, 12], [1, 4, 19])
    )
    n_bytes, n_queries = int(rng.choice([1, 2, 9])), int(rng.choice([1, 3]))
    k, scan = int(rng.choice([1, 5, 70])), int(rng.integers(3))
    last = int(rng.choice([scan, lists_kernel.VECTORS]))
    tables_after = scan == lists_kernel.HAMMING and rng.random() < 0.5
    by_bytes = scan == lists_kernel.BYTES or (tables_after and rng.random() < 0.5)
    if tables_after and last == scan:
        last = lists_kernel.BYTES if by_bytes else lists_kernel.BITS
    codes = some_codes(rng, n, 8 * n_bytes)
    members, lists = np.arange(n), rng.integers(0, n_lists, n)
    twice = np.flatnonzero((rng.random(n) < 0.3) & (n_lists > 1))
    members = np.concatenate([members, twice])
    lists = np.concatenate([lists, (lists[twice] + 1) % n_lists])
    terms = whole(rng, n, size=9) if scan != lists_kernel.BYTES and rng.random() < 0.5 else None
    centroids = whole(rng, n_lists, width)
    partitions = Partitions(centroids, "l2", np.zeros(1, np.int64), np.empty((0, width), "f2"))
    held = arrange(codes, terms, members, lists, partitions, RowIds(n), n)
    # A scan by tables rounds: what decides after it must see all rows to be compared with.
    all_rows = scan != lists_kernel.HAMMING and last != scan
    by_scan = 2 * n + 1 if all_rows else max(2 * k, int(rng.choice([2, 40])))
    mapped = scan == lists_kernel.BITS and rng.random() < 0.5
    queries = whole(rng, n_queries, width)
    if rng.random() < 0.2:
        queries[0, 0] = rng.choice([np.nan, np.inf])
    query_codes = some_codes(rng, n_queries, 8 * n_bytes)
    by_code, starts = rng.random() < 0.3, np.zeros(1, np.int64)
    n_groups = int(rng.choice([0, 0 if by_code else 3])) if n_lists > 3 else 0
    if n_groups:
        starts = np.asarray([0, 2, 5, n_lists])
    plan = [min(k, n), int(rng.choice([1, 2, n_lists])), by_scan,
            max(2 * k, 9) if tables_after else 0, scan, last, int(rng.choice([0, 1]))]  # fmt: skip
    no_bits = by_bytes or mapped or (scan == lists_kernel.HAMMING and not tables_after)
    words = words_of(some_codes(rng, n_lists, 8 * n_bytes)) if by_code else np.empty((0, 1), "u8")
    kept = whole(rng, n, width) if last == lists_kernel.VECTORS else np.empty((0, 0), np.float32)
    return (
        np.asarray(plan), float(rng.choice([0.0, 0.5, 1e30])), queries, query_codes,
        words_of(query_codes), whole(rng, n_queries, 0 if no_bits else 8 * n_bytes),
        whole(rng, n_queries if by_bytes else 0, n_bytes if by_bytes else 0, 256 * by_bytes),
        *(_mapped(rng, 8 * n_bytes, width) if mapped else (whole(rng, 0, 0), whole(rng, 0))),
        *_stored(centroids), *_stored(whole(rng, n_groups, width)), starts,
        words, held.blocks, held.ranks, held.terms, float(held.term_step), held.starts,
        held.counts, kept, rng.random(n if rng.random() < 0.5 else 0) < 0.5,
        np.empty((n_queries, min(k, n)), np.float32), np.empty((n_queries, min(k, n)), np.int64),
        np.zeros((n_queries, lists_kernel.N_STATS), np.int64),
    ), {}  # fmt: skip


def _mapped(rng: Rng, n_bits: int, width: int) -> tuple[Any, Any]:
    slopes = np.zeros((n_bits + TOGETHER, width), dtype=np.float32)
    slopes[:n_bits] = whole(rng, n_bits, width, size=2)
    return slopes, whole(rng, n_bits)


def _stored(rows: Any) -> tuple[Any, Any]:
    """Centroids as the kernel wants them, and halves of their squares."""
    padded = np.zeros((len(rows) + TOGETHER, rows.shape[1]), np.float16 if HALVES else np.float32)
    padded[: len(rows)] = rows
    stored = padded.view(np.uint16) if HALVES else padded
    return stored, (np.square(rows).sum(axis=1) / 2).astype(np.float32)


def signs(rng: Rng) -> Arguments:
    n, n_bytes = int(rng.choice([1, 17, 60])), int(rng.choice([1, 2, 9]))
    scores = whole(rng, n, 8 * n_bytes, size=2)
    if rng.random() < 0.3:
        scores[rng.integers(n), 3] = rng.choice([np.nan, np.inf])
    codes = np.empty((n, n_bytes), dtype=np.uint8)
    return (scores, whole(rng, 8 * n_bytes, size=2), codes), {}


def floats(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


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


INPUTS: dict[str, Callable[[Rng], Arguments]] = {
    "hamming_neighbors": hamming,
    "hamming_range": hamming,
    "hamming_shortlist": hamming,
    "byte_table_neighbors": byte_tables,
    "asymmetric_neighbors": asymmetric,
    "scores": rescored,
    "best_places": places,
    "code_terms": terms,
    "multi_neighbors": looked_up_nearest,
    "multi_range": looked_up,
    "multi_pairs": joined,
    "search_partitions": listed,
    "exact_neighbors": exact,
    "kept_distances": kept,
    "shrink": vectors_to_shrink,
    "grow": rows_to_grow,
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


def outcome(function: Callable[..., Any], arguments: Arguments) -> list[Any]:
    """What a call returns, and what then stands in the arrays it was given."""
    positional, named = copy.deepcopy(arguments)
    found = function(*positional, **named)
    found = getattr(found, "neighbors", found)  # beside them stand counts of what was visited
    returned = list(found) if isinstance(found, tuple) else [found] * (found is not None)
    return [*returned, *(value for value in positional if isinstance(value, np.ndarray))]


@pytest.mark.parametrize(("module", "name"), list(TWINS), ids=[name for _, name in TWINS])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_a_kernel_gives_what_its_twin_gives(module: str, name: str, seed: int) -> None:
    fast = getattr(importlib.import_module(f"sghash.kernels.{module}"), name)
    arguments = INPUTS[name](np.random.default_rng(seed))
    found, expected = outcome(fast, arguments), outcome(TWINS[module, name], arguments)
    if name == "search_partitions":  # beyond lists and rows visited stand steps of a clock
        found[-1], expected[-1] = (
            told[-1][:, : lists_kernel.SHORTLISTED] for told in (found, expected)
        )
    for got, wanted in zip(found, expected, strict=True):
        if name in CLOSE:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(got, wanted)
        assert np.asarray(got).dtype == np.asarray(wanted).dtype


def test_every_public_kernel_has_a_twin() -> None:
    inside = pkgutil.walk_packages(kernels.__path__, "sghash.kernels.")
    modules = {
        info.name.removeprefix("sghash.kernels."): info.name for info in inside if not info.ispkg
    }
    modules = {short: name for short, name in modules.items() if not short.startswith("reference")}
    assert set(modules) >= INNER
    for short in set(modules) - INNER:
        module = importlib.import_module(modules[short])
        public = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and callable(value)
            and not inspect.isclass(value)
            and getattr(value, "__module__", None) == module.__name__
        }
        twins = {name for home, name in TWINS if home == short}
        assert public == twins | PARTS.get(short, set()), short


def test_twins_take_the_same_arguments() -> None:
    for (module, name), twin in TWINS.items():
        fast = getattr(importlib.import_module(f"sghash.kernels.{module}"), name)
        names = list(inspect.signature(getattr(fast, "py_func", fast)).parameters)
        assert list(inspect.signature(twin).parameters) == names, name
