"""Which bits make the keys of each part, and the tables from key to rows.

The bits of a code are shared out among m parts. Two codes that differ in at most r bits differ in
at most r // m bits of some part, so whoever looks up the keys near a query's in every part misses
nobody. A key takes the first bits of its part only, where all of them would make a table much
longer than there are rows; a shorter key is nearer still, so nothing is missed either.

An entry of a table is a row and, in its upper half, 32 more bits of the row's code: most rows are
ruled out without a look at the code, which lies elsewhere in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.errors import InvalidInput
from sghash.kernels.checks import UINT8, check_array
from sghash.kernels.compiling import announce, compiled
from sghash.validation import Codes

#: Bits of a key: a table has a place for each value.
LEAST_KEY_BITS, MOST_KEY_BITS = 4, 27
#: More bits of a code beside a row.
REST_BITS = 32
#: Rows have 32 bits.
MOST_ROWS = 2**32 - 1
_SAMPLE_ROWS = 4096


class Tables(NamedTuple):
    """Rows by key, for each of m parts: all that compiled code needs to look rows up.

    The rows of key i in part p are `entries[p, starts[at + i]:starts[at + i + 1]]`, where `at` is
    `places[p]`. `masks` (m, n_words) are the bits of each key in 64-bit words of a code, and
    `spread` (m, n_bytes, 256) what each byte adds to an entry: the key below, other bits above.
    """

    starts: NDArray[np.uint32]
    places: NDArray[np.int64]
    entries: NDArray[np.uint64]
    key_bits: NDArray[np.int64]
    masks: NDArray[np.uint64]
    spread: NDArray[np.uint64]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for array in self)

    @property
    def n_rows(self) -> int:
        """Rows that can be found."""
        return int(self.entries.shape[1])


def default_parts(n: int, n_bits: int) -> int:
    """The number of parts whose keys have about as many values as there are rows."""
    return max(1, round(n_bits / max(LEAST_KEY_BITS, np.log2(max(n, 2)))))


def places_of(n: int, n_bits: int, n_parts: int) -> int:
    """Places of the longest of the tables of n rows."""
    most = min(MOST_KEY_BITS, max(LEAST_KEY_BITS, n.bit_length()))
    return 1 << min(most, -(-n_bits // n_parts))


def table_bytes(n: int, n_bits: int, n_parts: int | None = None) -> int:
    """Bytes that the tables of n rows take at most."""
    m = n_parts or default_parts(n, n_bits)
    n_bytes = -(-n_bits // 8)
    rows = 8 * n + 4 * (places_of(n, n_bits, m) + 1)
    # Bits of keys, what bytes add to them, and the numbers of each part.
    return m * (rows + 8 * -(-n_bytes // 8) + 8 * 256 * n_bytes + 16)


def share_out(codes: Codes, n_bits: int, n_parts: int) -> list[NDArray[np.int64]]:
    """Bits of each part, those first that tell most: balanced, and unlike those before them.

    Bits that go together in one part would crowd its rows into few keys.
    """
    step = max(1, len(codes) // _SAMPLE_ROWS)
    bits = np.unpackbits(codes[::step], axis=1, count=n_bits).astype(np.float64)
    bits -= bits.mean(axis=0) if len(bits) else 0
    deviations = np.sqrt(np.maximum(np.mean(bits**2, axis=0), 1e-12)) if len(bits) else 1.0
    alike = ((bits / deviations).T @ (bits / deviations) / max(1, len(bits))) ** 2
    unbalanced = np.broadcast_to(2 - 8 * np.square(deviations), n_bits)
    costs = np.tile(unbalanced, (n_parts, 1))
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    free = np.ones(n_bits, dtype=np.bool_)
    for turn in range(n_bits):
        part = turn % n_parts
        bit = int(np.argmin(np.where(free, costs[part], np.inf)))
        free[bit] = False
        parts[part].append(bit)
        costs[part] = costs[part] + alike[bit]
    return [np.asarray(part, dtype=np.int64) for part in parts]


def build_tables(codes: Codes, n_bits: int, n_parts: int) -> Tables:
    """Tables of all rows; at most `MOST_ROWS` codes (n, n_bytes) uint8."""
    check_array(codes, UINT8, 2, "codes")
    n, n_bytes = codes.shape
    if not 1 <= n_parts <= n_bits <= 8 * n_bytes or n > MOST_ROWS:
        raise InvalidInput(
            f"{n} codes of {n_bytes} bytes have no {n_parts} parts of {n_bits} bits: at most "
            f"{MOST_ROWS} rows, one bit a part at least"
        )
    most = min(MOST_KEY_BITS, max(LEAST_KEY_BITS, n.bit_length()))
    parts = share_out(codes, n_bits, n_parts)
    keys = [part[:most] for part in parts]
    key_bits = np.asarray([len(key) for key in keys], dtype=np.int64)
    sizes = (1 << key_bits) + 1
    places = np.cumsum(sizes) - sizes
    starts = np.zeros(int(sizes.sum()), dtype=np.uint32)
    spread = np.zeros((n_parts, n_bytes, 256), dtype=np.uint64)
    masks = np.zeros((n_parts, -(-n_bytes // 8)), dtype=np.uint64)
    for p, key in enumerate(keys):
        _fill_spread(spread[p], key, _others(parts, p, len(key)))
        for bit in key.tolist():
            masks[p, bit // 64] |= np.uint64(1 << (bit % 64 // 8 * 8 + 7 - bit % 8))
    entries = np.empty((n_parts, n), dtype=np.uint64)
    announce(_fill, "tables of codes")
    for p in range(n_parts):
        own = starts[places[p] : places[p] + sizes[p]]
        _fill(codes, spread[p], own, entries[p])
    return Tables(starts, places, entries, key_bits, masks, spread)


def _others(parts: list[NDArray[np.int64]], part: int, used: int) -> NDArray[np.int64]:
    """The bits that stand beside a row: those of other parts in turn, then the rest of its own."""
    n_parts = len(parts)
    longest = max(len(bits) for bits in parts)
    others = [
        int(parts[(part + i) % n_parts][turn])
        for turn in range(longest)
        for i in range(1, n_parts)
        if turn < len(parts[(part + i) % n_parts])
    ]
    return np.asarray((others + parts[part][used:].tolist())[:REST_BITS], dtype=np.int64)


def _fill_spread(
    spread: NDArray[np.uint64], key: NDArray[np.int64], rest: NDArray[np.int64]
) -> None:
    values = np.arange(256, dtype=np.uint64)
    for first, bits in ((0, key), (32, rest)):
        for place, bit in enumerate(bits.tolist()):
            is_set = (values >> np.uint64(7 - bit % 8)) & np.uint64(1)
            spread[bit // 8] |= is_set << np.uint64(first + place)


@compiled
def spread_code(codes: NDArray[np.uint8], row: int, spread: NDArray[np.uint64]) -> Any:
    """The key of a row in its lower half, more bits of its code in the upper."""
    found = np.uint64(0)
    for i in range(codes.shape[1]):
        found |= spread[i, codes[row, i]]
    return found


@compiled
def _fill(
    codes: NDArray[np.uint8],
    spread: NDArray[np.uint64],
    starts: NDArray[np.uint32],
    entries: NDArray[np.uint64],
) -> None:
    """A counting sort by key, stable in the row: count, add up, put in place."""
    n, low = codes.shape[0], np.uint64(0xFFFFFFFF)
    for row in range(n):
        starts[np.int64(spread_code(codes, row, spread) & low) + 1] += np.uint32(1)
    for key in range(1, starts.shape[0]):
        starts[key] += starts[key - 1]
    for row in range(n):
        found = spread_code(codes, row, spread)
        own = np.int64(found & low)
        entries[starts[own]] = (found & ~low) | np.uint64(row)
        starts[own] += np.uint32(1)
    # Each start has moved to the next one's place.
    for key in range(starts.shape[0] - 1, 0, -1):
        starts[key] = starts[key - 1]
    starts[0] = 0
