"""What a partitioned index writes to its file, and how it is checked before anything trusts it.

The section of codes holds the blocks of all lists, one list after the other: (n_blocks, n_planes *
64). Beside it stand how many codes each list has, the row of each slot (four bytes), the terms,
the centroids, and the numbers in `NUMBERS`. Compiled code follows these numbers without asking, so
all of them are asked here, also in a mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.index.file import StoredIndex
from sghash.index.lists.arranged import ROWS, Arranged, levels_of
from sghash.index.lists.centroids import MAX_LISTS, Partitions
from sghash.index.lists.curve import Curve
from sghash.index.lists.query_map import QueryMap
from sghash.index.rows import RowIds
from sghash.validation import METRICS, Ids, Vectors

#: What stands in the section `numbers`, in this order.
NUMBERS = ("n_lists", "metric", "spill", "random_state", "spill_gap", "least_term", "term_step")
# Rows that are checked at a time.
_PIECE = 1 << 20


def packed(held: Arranged) -> Arranged:
    """The same without room to spare, as it stands in a file."""
    used = -(-held.counts // ROWS)
    if held.n_blocks_used == len(held.blocks) and np.array_equal(used, held.capacities):
        starts = np.cumsum(used) - used
        if np.array_equal(starts, held.starts):
            return held
    blocks = np.concatenate(
        [np.arange(first, first + n) for first, n in zip(held.starts, used, strict=True)]
        or [np.empty(0, dtype=np.int64)]
    ).astype(np.int64)
    slots = (blocks[:, None] * ROWS + np.arange(ROWS)).reshape(-1)
    return Arranged(
        held.blocks[blocks], held.ranks[slots],
        held.terms[slots] if len(held.terms) else held.terms,
        np.cumsum(used) - used, held.counts, used, len(blocks), held.n_bytes, held.row_ids,
        held.next_id, held.least_term, held.term_step, held.partitions,
    )  # fmt: skip


def parts_of(held: Arranged, options: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The sections beside codes and ids, of a moment that is packed."""
    numbers = [
        options.get("n_lists") or 0, METRICS.index(options["metric"]), options["spill"],
        options["random_state"], 0.0, held.least_term, held.term_step,
    ]  # fmt: skip
    found: dict[str, NDArray[Any]] = {
        "counts": held.counts,
        "ranks": held.ranks.astype("<u4").view(np.uint8).reshape(-1, 4),
        "terms": held.terms,
    }
    if (partitions := held.partitions) is not None:
        numbers[4] = partitions.spill_gap
        found |= {
            "centroids": partitions.centroids,
            "group_starts": partitions.group_starts,
            "group_centroids": partitions.group_centroids,
        }
    return {"numbers": np.asarray(numbers, dtype=np.float64)} | found


def stored_of(
    held: Arranged,
    options: Mapping[str, Any],
    n_planes: int,
    query_map: QueryMap | None,
    curve: Curve | None,
) -> StoredIndex:
    """All that a file holds."""
    held = packed(held)
    parts = parts_of(held, options)
    if query_map is not None:
        parts |= {"map_slopes": query_map.slopes, "map_bias": query_map.bias}
    if curve is not None:
        parts["curve"] = curve.as_array()
    names = ("n_bytes", "n_bits", "gram")
    stored = {name: options[name] for name in names if name in options}
    codes = held.blocks.reshape(len(held.blocks), n_planes * ROWS)
    return StoredIndex("partitioned", stored, codes, held.row_ids, held.next_id, parts)


def read_numbers(parts: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """The section `numbers` by name."""
    numbers = parts["numbers"]
    if numbers.dtype != np.float64 or numbers.shape != (len(NUMBERS),):
        raise ValueError("its numbers are not valid")
    found = dict(zip(NUMBERS, numbers.tolist(), strict=True))
    whole = ("n_lists", "metric", "random_state")
    if not np.isfinite(numbers).all() or any(found[name] != int(found[name]) for name in whole):
        raise ValueError("its numbers are not valid")
    if not 0 <= found["metric"] < len(METRICS) or not 0 <= found["n_lists"] <= MAX_LISTS:
        raise ValueError("its metric or number of lists is not valid")
    if found["term_step"] < 0:
        raise ValueError("its terms are not valid")
    return found


def _expect(array: NDArray[Any], kind: Any, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if array.dtype != kind or array.shape != shape:
        raise ValueError(
            f"its {name} are {array.dtype} {array.shape}, not {np.dtype(kind)} {shape}"
        )
    return array


def arranged_of(
    codes: NDArray[np.uint8],
    parts: Mapping[str, NDArray[Any]],
    numbers: Mapping[str, float],
    n_bytes: int,
    n_planes: int,
    ids: RowIds,
    next_id: int,
) -> Arranged:
    """What a file holds, if compiled code may trust it; else a ValueError."""
    partitions = _partitions_of(parts, numbers, n_bytes)
    n_lists = 0 if partitions is None else partitions.n_lists
    n_blocks = len(codes)
    _expect(codes, np.uint8, (n_blocks, n_planes * ROWS), "codes")
    counts = _expect(parts["counts"], np.int64, (n_lists,), "counts").copy()
    most = n_blocks * ROWS
    if np.any(counts < 0) or np.any(counts > most):
        raise ValueError("its counts are not valid")
    used = -(-counts // ROWS)
    if int(used.sum()) != n_blocks:
        raise ValueError("its counts do not fit its blocks")
    ranks = _expect(parts["ranks"], np.uint8, (most, 4), "ranks").reshape(-1).view("<u4")
    with_terms = n_planes > n_bytes
    terms = _expect(parts["terms"], np.float32, (most if with_terms and most else 0,), "terms")
    if not np.isfinite(terms).all():
        raise ValueError("its terms are not finite")
    starts = np.cumsum(used) - used
    held = Arranged(
        codes.reshape(n_blocks, n_planes, ROWS), ranks, terms, starts, counts, used, n_blocks,
        n_bytes, ids, next_id, numbers["least_term"], numbers["term_step"], partitions,
    )  # fmt: skip
    # Each row in one list or in two.
    seen = np.zeros(ids.n, dtype=np.uint8)
    if n_blocks:
        from sghash.kernels.partitions.layout import count_ranks

        if not count_ranks(ranks, starts, counts, seen):
            raise ValueError("its ranks name rows that are not there")
    twice = 2 if partitions is not None and partitions.spill_gap >= 0 else 1
    if ids.n and (seen.min() < 1 or seen.max() > twice):
        raise ValueError("its ranks do not name every row")
    return held


def check_copies(held: Arranged, tables: Vectors | None) -> None:
    """Refuse codes whose own terms are not theirs, and rows whose two codes differ.

    Asked of mapped files too, though it reads all codes: answers would contradict each other.
    `tables` are those of the gram, None where there is none.
    """
    from sghash.kernels.partitions.layout import take_rows
    from sghash.kernels.tables.terms import code_terms

    spilled = held.partitions is not None and held.partitions.spill_gap >= 0
    if not held.n or (tables is None and not spilled):
        return
    by_row = np.empty((held.n if spilled else 0, held.n_bytes), dtype=np.uint8)
    known = np.zeros(len(by_row), dtype=np.bool_)
    size = apart = 0.0
    least, most = np.inf, -np.inf
    for slots in _in_pieces(held):
        planes = np.empty((len(slots), held.n_bytes + (tables is not None)), dtype=np.uint8)
        take_rows(held.blocks, slots, planes)
        codes = np.ascontiguousarray(planes[:, : held.n_bytes])
        if spilled:
            rows = held.ranks[slots]
            again = known[rows]
            same = np.array_equal(by_row[rows[again]], codes[again])
            by_row[rows], known[rows] = codes, True
            # Both codes of a row may be of this piece.
            if not same or not np.array_equal(by_row[rows], codes):
                raise ValueError("a row has two codes")
        if tables is None:
            continue
        right, terms = code_terms(codes, tables), held.terms[slots]
        size = float(np.maximum(size, np.abs(right).max()))
        apart = float(np.maximum(apart, np.abs(right - terms).max()))
        least, most = min(least, float(terms.min())), max(most, float(terms.max()))
        levels = levels_of(terms, held.least_term, held.term_step)
        if not np.array_equal(planes[:, held.n_bytes :], levels):
            raise ValueError("its terms are not those of its codes")
    if tables is None:
        return
    if not apart <= 1e-5 * (size + float(np.abs(tables).max())):
        raise ValueError("its terms are not those of its codes")
    if least < held.least_term or most > held.least_term + 256 * held.term_step:
        raise ValueError("its terms are beyond their range")


def _in_pieces(held: Arranged) -> Iterator[Ids]:
    """Every slot in use, some lists at a time: of many rows no array is made at once."""
    from sghash.kernels.partitions.layout import used_slots

    ends = np.cumsum(held.counts)
    first = done = 0
    while done < ends[-1]:
        last = max(first + 1, int(np.searchsorted(ends, done + _PIECE, side="right")))
        n = int(ends[last - 1]) - done
        slots, lists = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        used_slots(held.starts[first:last], held.counts[first:last], slots, lists)
        if n:
            yield slots
        first, done = last, int(ends[last - 1])


def _partitions_of(
    parts: Mapping[str, NDArray[Any]], numbers: Mapping[str, float], n_bytes: int
) -> Partitions | None:
    if "centroids" not in parts:
        return None
    centroids, groups = parts["centroids"], parts["group_centroids"]
    starts = parts["group_starts"].copy()
    if centroids.ndim != 2 or not 1 <= len(centroids) <= MAX_LISTS:
        raise ValueError("its centroids are not valid")
    if centroids.dtype == np.uint8:
        _expect(centroids, np.uint8, (len(centroids), n_bytes), "centroids")
    else:
        _expect(centroids, np.float16, centroids.shape, "centroids")
        if not np.isfinite(centroids).all() or not np.isfinite(groups).all():
            raise ValueError("its centroids are not finite")
    width = 0 if centroids.dtype == np.uint8 else centroids.shape[1]
    _expect(groups, np.float16, (len(groups), width), "groups of lists")
    _expect(starts, np.int64, (len(groups) + 1,), "groups of lists")
    last = len(centroids) if len(groups) else 0
    if starts[0] != 0 or starts[-1] != last or np.any(starts[1:] < starts[:-1]):
        raise ValueError("its groups of lists do not fit")
    metric = METRICS[int(numbers["metric"])]
    return Partitions(centroids, metric, starts, groups, numbers["spill_gap"])
