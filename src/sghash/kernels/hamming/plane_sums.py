"""Adding up bit planes of a tile: the code emitted for one query, or one word of it.

Planes are added by carry-save adders. `groups` and `planes` are tuples whose lengths are
constants of the compiled code.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from sghash.kernels.hamming.tiles import GROUPS_PER_WORD, WORD_TABLE_BYTES
from sghash.kernels.lanes import (
    OFFSET,
    VECTOR_BYTES,
    Address,
    addresses,
    lane_flags,
    load,
    load_scalar,
    ones,
    splat,
    store,
    zeros,
)


class _Adder:
    """Carry-save addition of bit planes: at most two planes wait at each weight."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.waiting: dict[int, list[Any]] = {}

    def add(self, plane: Any, weight: int) -> None:
        planes = self.waiting.setdefault(weight, [])
        planes.append(plane)
        if len(planes) == 3:
            total, carry = self._full(*planes)
            self.waiting[weight] = [total]
            self.add(carry, weight + 1)

    def _full(self, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
        build = self.builder
        differ = build.xor(a, b)
        # Written as a selection: one instruction where there is one (vpternlog, bsl).
        carry = build.or_(build.and_(differ, c), build.and_(build.xor(differ, ones()), a))
        return build.xor(differ, c), carry

    def planes(self, n: int) -> list[Any]:
        """The sum as `n` planes, lowest weight first."""
        build = self.builder
        for weight in range(n):
            planes = self.waiting.get(weight, [])
            if len(planes) == 2:
                self.waiting[weight] = [build.xor(*planes)]
                self.add(build.and_(*planes), weight + 1)
        return [(self.waiting.get(weight) or [zeros()])[0] for weight in range(n)]


def _add_groups(adder: _Adder, table: Address, offsets: Address, n_groups: int) -> None:
    builder = adder.builder
    for group in range(n_groups):
        entry = table.plus(load_scalar(builder, offsets, 4 * group, 32))
        adder.add(load(builder, entry), 0)
        if group < GROUPS_PER_WORD - 1:  # the last group of a word is a single bit
            adder.add(load(builder, entry, VECTOR_BYTES), 1)


@intrinsic
def below(
    typing_context: Any,
    groups: Any,
    planes: Any,
    tables: Any,
    tables_at: Any,
    offsets: Any,
    offsets_at: Any,
    bias: Any,
    bias_at: Any,
    out: Any,
    out_at: Any,
) -> Any:
    """Codes below the limit: writes their mask to `out`, returns which lanes have any."""
    n_words = -(-len(groups) // GROUPS_PER_WORD)
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, chosen, start, target = addresses(context, builder, signature, arguments)
        adder = _Adder(builder)
        for weight in range(n_planes):
            adder.add(splat(builder, load_scalar(builder, start, 8 * weight, 64)), weight)
        for word in range(n_words):
            _add_groups(
                adder,
                table.plus(word * WORD_TABLE_BYTES),
                chosen.plus(word * GROUPS_PER_WORD * 4),
                min(len(groups), GROUPS_PER_WORD),
            )
        mask = builder.xor(adder.planes(n_planes + 1)[n_planes], ones())
        store(builder, mask, target)
        return lane_flags(builder, builder.icmp_unsigned("!=", mask, zeros()))

    memory = (tables, OFFSET, offsets, OFFSET, bias, OFFSET, out, OFFSET)
    return types.int64(groups, planes, *memory), emit


@intrinsic
def add_word(
    typing_context: Any,
    planes: Any,
    tables: Any,
    tables_at: Any,
    offsets: Any,
    offsets_at: Any,
    sums: Any,
    sums_at: Any,
) -> Any:
    """Add one word's mismatches to the planes in `sums`; the last plane is the carry out.

    Returns which lanes still have a code below the limit.
    """
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, chosen, place = addresses(context, builder, signature, arguments)
        adder = _Adder(builder)
        for weight in range(n_planes):
            adder.add(load(builder, place, weight * VECTOR_BYTES), weight)
        _add_groups(adder, table, chosen, GROUPS_PER_WORD)
        total = adder.planes(n_planes)
        for weight, plane in enumerate(total):
            store(builder, plane, place, weight * VECTOR_BYTES)
        return lane_flags(builder, builder.icmp_unsigned("!=", total[-1], ones()))

    return types.int64(planes, tables, OFFSET, offsets, OFFSET, sums, OFFSET), emit


@intrinsic
def set_planes(
    typing_context: Any, planes: Any, bias: Any, bias_at: Any, sums: Any, sums_at: Any
) -> Any:
    """Start the planes in `sums` with the bias; the last plane, the carry, with zero."""
    n_planes = len(planes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, place = addresses(context, builder, signature, arguments)
        for weight in range(n_planes - 1):
            value = splat(builder, load_scalar(builder, start, 8 * weight, 64))
            store(builder, value, place, weight * VECTOR_BYTES)
        store(builder, zeros(), place, (n_planes - 1) * VECTOR_BYTES)
        return context.get_dummy_value()

    return types.void(planes, bias, OFFSET, sums, OFFSET), emit


@intrinsic
def store_inverted(typing_context: Any, source: Any, at: Any, out: Any, out_at: Any) -> Any:
    """Write the complement of a vector of `source` to `out`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, there = addresses(context, builder, signature, arguments)
        store(builder, builder.xor(load(builder, here), ones()), there)
        return context.get_dummy_value()

    return types.void(source, OFFSET, out, OFFSET), emit
