"""What a code adds to L2 scores by itself: h K h, with K = directions @ directions.T of a decoder.

Computed when needed, from tables: the row sums of K for every value of every four bits, so a code
of 64 bits adds up sixteen rows, or half of that since K is symmetric. These 64 KB stay in the
cache, while a stored term would cost another 4 bytes per code and a cache miss each.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from sghash.kernels.checks import UINT8, check_array, check_gram
from sghash.kernels.compiling import announce, compiled
from sghash.kernels.hamming.staging import word_of
from sghash.kernels.lanes import OFFSET, addresses, constant, load
from sghash.kernels.threads import cut, run
from sghash.validation import Codes, Vectors

_ROW_BYTES = 64 * 4
_TABLE_BYTES = 16 * _ROW_BYTES
_FLOATS = ir.VectorType(ir.FloatType(), 8)


def gram_tables(gram: NDArray[np.float64], n_bytes: int) -> Vectors:
    """Tables (n_pairs, 256, 64) float32 of a symmetric K (n_bits, n_bits), for codes of `n_bytes`.

    One for every pair of 64-bit words of a code, the first not after the second. Row 16 g + v
    holds, for the bits of the second word, the sums of K over the bits of nibble g of the first
    word when it has the value v. What K says twice counts double here and only once: bits of the
    second word that come before the nibble have zeros.
    """
    n_words = -(-n_bytes // 8)
    size = 64 * n_words
    padded = np.zeros((size, size))
    padded[: len(gram), : len(gram)] = gram
    # A word has the lowest byte first; the first bit of a byte is its highest.
    places = np.arange(size)
    order = (places & ~7) + 7 - (places & 7)
    padded = padded[np.ix_(order, order)]
    group = places // 4
    padded *= np.where(group[:, None] < group, 2, group[:, None] == group)
    bits = (np.arange(16)[:, None] >> np.arange(4) & 1).astype(np.float64)
    tables = np.empty((n_words * (n_words + 1) // 2, 256, 64), dtype=np.float32)
    pair = 0
    for first in range(n_words):
        for second in range(first, n_words):
            block = padded[64 * first : 64 * first + 64, 64 * second : 64 * second + 64]
            tables[pair] = (bits @ block.reshape(16, 4, 64)).reshape(256, 64)
            pair += 1
    return tables


def code_terms(codes: Codes, tables: Vectors, *, threads: int = 1) -> Vectors:
    """h K h of every code (n, n_bytes), (n,) float32; `tables` are those of `gram_tables`."""
    check_array(codes, UINT8, 2, "codes")
    check_gram(tables, codes.shape[1])
    terms = np.empty(len(codes), dtype=np.float32)
    announce(_terms, "rescoring")

    def compute(start: int, stop: int, stopped: threading.Event) -> None:
        for first in range(start, stop, 1 << 16):
            if stopped.is_set():
                return
            last = min(first + (1 << 16), stop)
            _terms(codes[first:last], tables, terms[first:last])

    run([(compute, part) for part in cut(len(codes), threads)])
    return terms


def _masked_sum(builder: Any, sums: list[Any], word: Any) -> Any:
    """Add up 64 floats where the bits of a word are set."""
    zero = ir.Constant(_FLOATS, [0.0] * 8)
    kept = []
    for byte, part in enumerate(sums):
        bits = builder.trunc(builder.lshr(word, constant(8 * byte)), ir.IntType(8))
        chosen = builder.bitcast(bits, ir.VectorType(ir.IntType(1), 8))
        kept.append(builder.select(chosen, part, zero))
    while len(kept) > 1:
        kept = [builder.fadd(a, b) for a, b in zip(kept[::2], kept[1::2], strict=True)]
    total = kept[0]
    for width in (4, 2, 1):
        places = [i + width if i < width else i for i in range(8)]
        index = ir.Constant(ir.VectorType(ir.IntType(32), 8), places)
        total = builder.fadd(total, builder.shuffle_vector(total, total, index))
    return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))


@intrinsic
def _word_product(
    typing_context: Any, tables: Any, at: Any, first: Any, second: Any, same_word: Any
) -> Any:
    """What two words of a code add to its term; their table begins at byte `at`.

    `same_word` is None for different words; zeros need not be added up where they are the same.
    """
    same = not isinstance(same_word, types.NoneType)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (table,) = addresses(context, builder, signature, arguments)
        first, second = arguments[2:4]
        sums = [ir.Constant(_FLOATS, [0.0] * 8)] * 8
        for group in range(16):
            value = builder.and_(builder.lshr(first, constant(4 * group)), constant(15))
            row = table.plus(builder.mul(value, constant(_ROW_BYTES)))
            for part in range(group // 2 if same else 0, 8):
                place = group * _TABLE_BYTES + 32 * part
                entry = load(builder, row, place, kind=_FLOATS, align=4)
                sums[part] = builder.fadd(sums[part], entry)
        return _masked_sum(builder, sums, second)

    kind = types.boolean if same else types.none
    return types.float32(tables, OFFSET, types.uint64, types.uint64, kind), emit


# Numba counts references at every slice of an array, which costs more than a term: functions take
# whole arrays and places in them.
@compiled
def code_term(codes: NDArray[np.uint8], row: int, tables: NDArray[np.float32]) -> np.float32:
    """The term h K h of the code in one row."""
    n_words = (codes.shape[1] + 7) >> 3
    table = 0
    total = np.float32(0)
    for i in range(n_words):
        first = word_of(codes, row, i)
        total += _word_product(tables, table, first, first, True)
        table += 256 * 64 * 4
        for j in range(i + 1, n_words):
            total += _word_product(tables, table, first, word_of(codes, row, j), None)
            table += 256 * 64 * 4
    return total


@compiled
def _terms(codes: NDArray[np.uint8], tables: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    for row in range(codes.shape[0]):
        out[row] = code_term(codes, row, tables)
