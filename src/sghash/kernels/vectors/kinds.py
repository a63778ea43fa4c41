"""What kept vectors look like in memory, by the name of their kind; loads no compiled code.

Of "float16" and "float32" a row is the vector. Of "int8" and "int4" it is d rotated numbers of
eight or four bits each, and after them three float32: what the numbers are to be multiplied with
for inner products, the length of the vector without its mean, and that mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Kind -> type of the array that holds the rows. It tells the kinds apart.
KINDS: dict[str, np.dtype[Any]] = {
    "float16": np.dtype("<f2"),
    "float32": np.dtype("<f4"),
    "int8": np.dtype(np.int8),
    "int4": np.dtype(np.uint8),
}
#: Kinds that give back other vectors than were put in, and cost less.
SMALL = ("int8", "int4")
#: Bytes after the numbers of a row.
TAIL = 12

_SMALL_TYPES = tuple(KINDS[kind] for kind in SMALL)


def code_bytes(kind: np.dtype[Any], width: int) -> int:
    """Bytes of the rotated numbers in a row of a small kind."""
    return width if kind == np.int8 else -(-width // 2)


def row_columns(kind: np.dtype[Any], width: int) -> int:
    """Columns of an array that holds vectors of `width` numbers."""
    return code_bytes(kind, width) + TAIL if kind in _SMALL_TYPES else width


def is_small(kept: NDArray[Any]) -> bool:
    """Whether rows are of a small kind."""
    return kept.dtype in _SMALL_TYPES


def tails_of(kept: NDArray[Any]) -> NDArray[np.float32]:
    """Factor, length and mean of every row (n, 3) of a small kind."""
    return np.ascontiguousarray(kept[:, -TAIL:]).view("<f4")
