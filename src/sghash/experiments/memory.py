"""What rows take in memory: as numbers, and as codes with ids in lists."""

from __future__ import annotations

from sghash.index.lists.arranged import ROWS
from sghash.index.lists.centroids import default_lists

#: A row's id, and its place in its list.
ID_BYTES, PLACE_BYTES = 8, 4
NUMBERS, CODES, IDS, LISTS = "numbers", "codes", "ids", "lists"


def code_bytes(
    n_rows: int, n_columns: int, n_bits: int, *, n_lists: int | None = None
) -> dict[str, float]:
    """Bytes of a `PartitionedIndex` of codes, part by part.

    A row: its code, its id, its place. A list: a float16 centroid, two numbers of 8 bytes, and half
    a block that is not full. `n_lists` None: as many as an index makes.
    """
    n_code = n_bits // 8
    n_lists = n_lists or default_lists(n_rows)
    spare = ROWS / 2 * (n_code + PLACE_BYTES)
    return {
        CODES: float(n_rows * n_code),
        IDS: float(n_rows * ID_BYTES),
        LISTS: n_rows * PLACE_BYTES + n_lists * (2 * n_columns + 16 + spare),
    }


def kept_bytes(
    n_rows: int, n_columns: int, lengths: tuple[int, ...]
) -> dict[str, dict[str, float]]:
    """How rows are kept -> part -> bytes: float32, float16, codes of each length."""
    return {
        "float32": {NUMBERS: 4.0 * n_rows * n_columns},
        "float16": {NUMBERS: 2.0 * n_rows * n_columns},
        **{f"codes of {n} bits": code_bytes(n_rows, n_columns, n) for n in lengths},
    }
