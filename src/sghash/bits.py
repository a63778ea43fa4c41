"""Packed codes: THE bit order of this package, and the converters to everybody else's.

A code of `n_bits` bits is `ceil(n_bits / 8)` bytes of uint8. Bit 0 is the most significant bit of
byte 0 (`np.packbits` order); what is left of the last byte is zero. Hamming distances do not
depend on the order, decoding does.

| layout                          | to                    | from                    |
|---------------------------------|-----------------------|-------------------------|
| FAISS (bit 0 least significant) | `to_faiss`            | `from_faiss`            |
| sentence-transformers "ubinary" | `to_ubinary`          | `from_ubinary`          |
| sentence-transformers "binary"  | `to_binary_int8`      | `from_binary_int8`      |
| Vespa int8 (reinterpreted)      | `to_vespa`            | `from_vespa`            |
| PostgreSQL bit(n) text          | `to_bit_strings`      | `from_bit_strings`      |
| Milvus BINARY_VECTOR bytes      | `to_milvus`           | `from_milvus`           |
| hexadecimal text                | `to_hex`              | `from_hex`              |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.validation import Codes, check_codes, check_n_bits, n_bytes_of

_Number = TypeVar("_Number", bound=np.generic)

# Bits of every byte value reversed: FAISS counts from the other end.
_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1
)[:, 0]


def pack_bits(bits: ArrayLike) -> Codes:
    """Pack bits (n, n_bits) given as bool, 0/1 or ±1 into codes (n, ceil(n_bits / 8)) uint8.

    A 1-D input is one code. In ±1 coding, +1 becomes a set bit.
    """
    array = np.asarray(bits)
    if array.dtype.kind not in "biuf":
        raise InvalidDtype(f"bits must be bool, 0/1 or ±1, got {array.dtype}")
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise InvalidInput(f"bits must have two dimensions (n, n_bits), got {array.ndim}")
    check_n_bits(array.shape[1])
    if array.dtype != np.bool_:
        is_one = array == 1
        rest = array[~is_one]
        if not (np.all(rest == 0) or np.all(rest == -1)):
            raise InvalidInput("bits must all be 0 or 1, or all be -1 or +1")
        array = is_one
    return np.packbits(array, axis=1)


def unpack_bits(codes: ArrayLike, n_bits: int) -> NDArray[np.bool_]:
    """Unpack codes (n, ceil(n_bits / 8)) into bits (n, n_bits) bool: the inverse of `pack_bits`."""
    packed = check_codes(codes, check_n_bits(n_bits))
    return np.unpackbits(packed, axis=1, count=n_bits).astype(np.bool_)


def to_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Reorder the bits of every byte for FAISS, which puts bit 0 in the least significant place.

    FAISS binary indexes take whole bytes: build them for `8 * ceil(n_bits / 8)` bits.
    """
    return _REVERSED[check_codes(codes, check_n_bits(n_bits))]


def from_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Take codes in FAISS's bit order (`IndexLSH`, `fvecs2bitvecs`)."""
    packed = _whole_bytes(codes, n_bits, np.uint8, "FAISS codes")
    return check_codes(_REVERSED[packed], n_bits, name="FAISS codes")


def to_ubinary(codes: ArrayLike, n_bits: int) -> Codes:
    """Sentence-transformers "ubinary": the same bytes."""
    return check_codes(codes, check_n_bits(n_bits)).copy()


def from_ubinary(codes: ArrayLike, n_bits: int) -> Codes:
    """Take sentence-transformers "ubinary" embeddings."""
    return check_codes(codes, check_n_bits(n_bits), name="ubinary embeddings").copy()


def to_binary_int8(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Sentence-transformers "binary": every byte minus 128 (an offset, not a reinterpretation)."""
    packed = check_codes(codes, check_n_bits(n_bits))
    return (packed.astype(np.int16) - 128).astype(np.int8)


def from_binary_int8(embeddings: ArrayLike, n_bits: int) -> Codes:
    """Take sentence-transformers "binary" (offset int8) embeddings."""
    offset = _whole_bytes(embeddings, n_bits, np.int8, "binary embeddings")
    packed = (offset.astype(np.int16) + 128).astype(np.uint8)
    return check_codes(packed, n_bits, name="binary embeddings")


def to_vespa(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Vespa `tensor<int8>`: the same bytes read as two's complement."""
    return check_codes(codes, check_n_bits(n_bits)).copy().view(np.int8)


def from_vespa(cells: ArrayLike, n_bits: int) -> Codes:
    """Take Vespa's int8 cells."""
    signed = _whole_bytes(cells, n_bits, np.int8, "Vespa cells")
    return check_codes(signed.view(np.uint8), n_bits, name="Vespa cells").copy()


def to_bit_strings(codes: ArrayLike, n_bits: int) -> list[str]:
    """PostgreSQL `bit(n_bits)` literals: one '0'/'1' character per bit, bit 0 leftmost."""
    return [row.tobytes().decode("ascii") for row in unpack_bits(codes, n_bits) + np.uint8(48)]


def from_bit_strings(strings: Sequence[str], n_bits: int) -> Codes:
    """Take PostgreSQL bit strings, all of length `n_bits`."""
    check_n_bits(n_bits)
    for text in strings:
        if len(text) != n_bits or not set(text) <= {"0", "1"}:
            raise InvalidInput(f"expected bit strings of {n_bits} characters 0 or 1, got {text!r}")
    characters = np.frombuffer("".join(strings).encode("ascii"), dtype=np.uint8)
    return np.packbits(characters.reshape(-1, n_bits) == 49, axis=1)


def to_milvus(codes: ArrayLike, n_bits: int) -> list[bytes]:
    """Milvus BINARY_VECTOR values; the field's dim must be `8 * ceil(n_bits / 8)`."""
    return [row.tobytes() for row in check_codes(codes, check_n_bits(n_bits))]


def from_milvus(values: Sequence[bytes], n_bits: int) -> Codes:
    """Take Milvus BINARY_VECTOR values."""
    width = n_bytes_of(check_n_bits(n_bits))
    for value in values:
        if len(value) != width:
            raise InvalidInput(f"expected {width} bytes for {n_bits} bits, got {len(value)}")
    packed = np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, width)
    return check_codes(packed, n_bits, name="Milvus values").copy()


def to_hex(codes: ArrayLike, n_bits: int) -> list[str]:
    """Two lower-case hexadecimal digits per byte, byte 0 first."""
    return [row.tobytes().hex() for row in check_codes(codes, check_n_bits(n_bits))]


def from_hex(strings: Sequence[str], n_bits: int) -> Codes:
    """Take hexadecimal codes, upper or lower case."""
    width = n_bytes_of(check_n_bits(n_bits))
    for text in strings:
        if len(text) != 2 * width or not set(text.lower()) <= set("0123456789abcdef"):
            raise InvalidInput(
                f"expected {2 * width} hexadecimal digits for {n_bits} bits, got {text!r}"
            )
    return from_milvus([bytes.fromhex(text) for text in strings], n_bits)


def _whole_bytes(
    values: ArrayLike, n_bits: int, dtype: type[_Number], name: str
) -> NDArray[_Number]:
    """Foreign bytes of the right dtype and width; their padding is checked after conversion."""
    width = n_bytes_of(check_n_bits(n_bits))
    array = np.asarray(values)
    if array.dtype != dtype:
        raise InvalidDtype(f"{name} must be {np.dtype(dtype)}, got {array.dtype}")
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != width:
        raise InvalidInput(f"{name} have shape {array.shape}, {n_bits}-bit codes need (n, {width})")
    return np.ascontiguousarray(array)
