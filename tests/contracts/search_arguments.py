"""Arguments for the kernels that search, drawn from a seed: small, with plenty of ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sghash.index.lists.arranged import arrange
from sghash.index.lists.centroids import Partitions
from sghash.index.rows import RowIds
from sghash.kernels.hamming.staging import words_of
from sghash.kernels.multi.layout import build_tables
from sghash.kernels.partitions import search as lists_kernel
from sghash.kernels.partitions.coarse import TOGETHER
from sghash.kernels.reference import small
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


def whole(rng: Rng, *shape: int, size: int = 4, kind: Any = np.float32) -> Any:
    return rng.integers(-size, size + 1, shape).astype(kind)


def floats(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


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
            max(2 * k, 9) if tables_after else 0, scan, last, int(rng.choice([0, 1])),
            int(rng.choice([0, 1000, 2500]))]  # fmt: skip
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


SEARCHES: dict[str, Callable[[Rng], Arguments]] = {
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
}
