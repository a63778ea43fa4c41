"""What rows take in memory: as numbers, and as codes with ids in lists."""

from __future__ import annotations

from sghash.index.lists.arranged import ROWS
from sghash.index.lists.centroids import default_lists
from sghash.kernels.vectors.kinds import KINDS, row_columns

#: A row's id, and its place in its list.
ID_BYTES, PLACE_BYTES = 8, 4
NUMBERS, CODES, IDS, LISTS = "numbers", "codes", "ids", "lists"
#: Bits of the codes that a build usually takes for texts.
BUILT_BITS = 256


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
    """How rows are kept -> part -> bytes: float32, float16, as built, codes of each length.

    Built without options, a collection of texts has int4 vectors behind codes of 256 bits, which
    stand in its segment and in its lists.
    """
    built = code_bytes(n_rows, n_columns, BUILT_BITS)
    built[CODES] *= 2
    numbers = float(n_rows * row_columns(KINDS["int4"], n_columns))
    return {
        "float32": {NUMBERS: 4.0 * n_rows * n_columns},
        "float16": {NUMBERS: 2.0 * n_rows * n_columns},
        f"built: int4 and {BUILT_BITS} bits": {NUMBERS: numbers, **built},
        **{f"codes of {n} bits": code_bytes(n_rows, n_columns, n) for n in lengths},
    }
