"""The search over lists, one row after the other: which lists, which rows, what they score.

Where tables scan and something else decides, the fast one rounds scores of the scan; it is compared
where its shortlist has room for all rows, since roundings are not restated here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.validation import Ids, Vectors

_HAMMING, _BITS, _BYTES, _VECTORS = range(4)
_L2, _IP, _COSINE = range(3)
# The order in which 64 codes of a block come out of the scan: the even ones first.
_ORDER = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])


def search_partitions(
    plan: NDArray[np.int64],
    margin: float,
    vectors: Vectors,
    codes: NDArray[np.uint8],
    code_words: NDArray[np.uint64],
    slopes: Vectors,
    byte_tables: Vectors,
    map_slopes: Vectors,
    map_bias: Vectors,
    centroids: NDArray[Any],
    half_squares: Vectors,
    groups: NDArray[Any],
    group_squares: Vectors,
    group_starts: Ids,
    centroid_words: NDArray[np.uint64],
    blocks: NDArray[np.uint8],
    ranks: NDArray[np.uint32],
    terms: Vectors,
    term_step: float,
    starts: Ids,
    counts: Ids,
    kept: NDArray[Any],
    allowed: NDArray[np.bool_],
    out_distances: Vectors,
    out_rows: Ids,
    stats: NDArray[np.int64],
) -> None:
    """Answer every query as the plan says; lists and rows visited go to `stats`."""
    k, probes, by_scan, by_tables, scan, last, metric, enough = plan.tolist()
    blocks = blocks[:, : blocks.shape[1] - bool(len(terms))]
    lengths = by_scan, by_tables
    for query in range(len(out_rows)):
        by_scan, by_tables = lengths
        out_distances[query], out_rows[query] = np.inf, -1
        vector = vectors[query]
        if not np.isfinite(vector).all():
            stats[query, 0] = -1
            continue
        lists = np.arange(len(starts))
        if probes < len(starts):
            scores, mean = (
                _code_scores(code_words[query], centroid_words)
                if len(centroid_words)
                else _scores(vector, centroids, half_squares, groups, group_squares, group_starts,
                             probes)
            )  # fmt: skip
            lists = _near(scores, mean, probes, margin)

            def met(lists: Ids) -> int:
                slots = _slots(lists, starts, counts)
                return int(allowed[ranks[slots]].sum()) if len(allowed) else len(slots)

            wanted, n_near = max(int(counts[lists].sum()) * enough // 1000, 4 * k), len(lists)
            while enough and len(lists) < len(starts) and 20 * met(lists) < 19 * wanted:
                share = min(8.0, 1.1 * wanted / max(met(lists), 1))
                more = max(len(lists) + 1, int(np.ceil(len(lists) * share)))
                if 2 * more >= len(starts):
                    lists = np.arange(len(starts))
                    break
                if not len(centroid_words):
                    scores, mean = _scores(vector, centroids, half_squares, groups, group_squares,
                                           group_starts, more)  # fmt: skip
                before = len(lists)
                lists = _near(scores, mean, more, 1e30)
                if len(lists) <= before:
                    lists = np.arange(len(starts))
            if enough and len(allowed):
                times = min(4.0, float(np.sqrt(len(lists) / n_near)))
                by_scan, by_tables = int(by_scan * times), int(by_tables * times)
        stats[query, :2] = len(lists), counts[lists].sum()
        slots = _slots(lists, starts, counts)
        if len(allowed):
            slots = slots[allowed[ranks[slots]]]
        distances = np.empty(0, dtype=np.float32)
        if scan == _HAMMING:
            most = len(slots) if last == scan else 2 * by_scan + 64
            distances = _hamming(blocks, slots, codes[query])
            if len(slots) > by_scan:
                bar = np.sort(distances)[by_scan - 1]
                near = np.flatnonzero(distances <= bar)
                if len(near) > most:
                    ties = np.flatnonzero(distances == bar)
                    near = np.concatenate([np.flatnonzero(distances < bar), ties])[:most]
                slots, distances = slots[near], distances[near]
        if scan != _HAMMING or by_tables:
            if len(byte_tables):
                scores_by_tables = _by_bytes(blocks, slots, byte_tables[query])
            else:
                own = slopes[query] if slopes.shape[1] else _mapped(vector, map_slopes, map_bias)
                scores_by_tables = _by_bits(blocks, slots, own)
            scores_by_tables += terms[slots] if len(terms) else 0
            if last != _VECTORS:
                distances = scores_by_tables
            elif scan == _HAMMING:
                slots = slots[np.lexsort((slots, scores_by_tables))[:by_tables]]
        rows = ranks[slots].astype(np.int64)
        if last == _VECTORS:
            distances = _kept_distances(kept[rows], vector, metric)
        _write(distances, rows, out_distances[query], out_rows[query])


def _wide(stored: NDArray[Any]) -> Vectors:
    return (stored.view(np.float16) if stored.dtype == np.uint16 else stored).astype(np.float32)


def _code_scores(
    code: NDArray[np.uint64], centroid_words: NDArray[np.uint64]
) -> tuple[list[tuple[float, int]], float]:
    apart = np.bitwise_count(centroid_words ^ code).sum(axis=1)
    return [(float(d), i) for i, d in enumerate(apart)], float(apart.mean())


def _scores(
    vector: Vectors,
    centroids: NDArray[Any],
    half_squares: Vectors,
    groups: NDArray[Any],
    group_squares: Vectors,
    group_starts: Ids,
    probes: int,
) -> tuple[list[tuple[float, int]], float]:
    """Scores of lists, of groups by rising distance until enough are seen; and their mean."""
    n = len(half_squares)
    every = half_squares - _wide(centroids)[:n] @ vector
    seen = list(range(n))
    if len(group_squares):
        seen, wanted = [], min(n, 6 * probes + n // 8)
        near = group_squares - _wide(groups)[: len(group_squares)] @ vector
        for group in np.argsort(near, kind="stable"):
            seen += range(group_starts[group], group_starts[group + 1])
            if len(seen) >= wanted:
                break
    mean = float(np.float32(every[seen].astype(np.float64).mean()))
    return [(float(every[i]), i) for i in seen], mean


def _near(scores: list[tuple[float, int]], mean: float, probes: int, margin: float) -> Ids:
    """The nearest lists, none beyond the margin; of equals the first that was seen."""
    best = sorted(scores, key=lambda pair: pair[0])[:probes]
    first = best[0][0]
    bound = np.float32(first) + np.float32(margin) * np.float32(max(mean - first, 0.0))
    near = [i for place, (score, i) in enumerate(best) if score <= bound or place == 0]
    return np.asarray(near, dtype=np.int64)


def _slots(lists: Ids, starts: Ids, counts: Ids) -> Ids:
    """Slots of all codes of these lists, in the order of the scan."""
    found = [np.empty(0, dtype=np.int64)]
    for where in lists:
        for first in range(0, counts[where], 64):
            inside = _ORDER[counts[where] - first > _ORDER]
            found.append(starts[where] * 64 + first + inside)
    return np.concatenate(found)


def _hamming(blocks: NDArray[np.uint8], slots: Ids, code: NDArray[np.uint8]) -> Vectors:
    apart = np.bitwise_count(blocks[slots >> 6, :, slots & 63] ^ code)
    return apart.sum(axis=1).astype(np.float32)


def _mapped(vector: Vectors, map_slopes: Vectors, map_bias: Vectors) -> Vectors:
    return (map_slopes @ vector)[: len(map_bias)] + map_bias


def _by_bits(blocks: NDArray[np.uint8], slots: Ids, slopes: Vectors) -> Vectors:
    bits = np.unpackbits(blocks[slots >> 6, :, slots & 63], axis=1)[:, : len(slopes)]
    return (bits * slopes).sum(axis=1, dtype=np.float32)


def _by_bytes(blocks: NDArray[np.uint8], slots: Ids, table: Vectors) -> Vectors:
    codes = blocks[slots >> 6, :, slots & 63]
    return table[np.arange(codes.shape[1]), codes].sum(axis=1, dtype=np.float32)


def _kept_distances(kept: NDArray[Any], vector: Vectors, metric: int) -> Vectors:
    wide = _wide(kept)
    if metric == _L2:
        return np.asarray(np.square(wide - vector).sum(axis=1))
    products = wide @ vector
    if metric == _IP:
        return -products
    both = np.sqrt(np.square(wide).sum(axis=1) * np.square(vector).sum())
    return np.where(both > 0, 1 - products / np.where(both > 0, both, 1), 1).astype(np.float32)


def _write(distances: Vectors, rows: Ids, out_distances: Vectors, out_rows: Ids) -> None:
    """The best by (distance, row), each row once."""
    best = sorted(set(zip(distances.tolist(), rows.tolist(), strict=True)))[: len(out_rows)]
    for place, (distance, row) in enumerate(best):
        out_distances[place], out_rows[place] = distance, row
