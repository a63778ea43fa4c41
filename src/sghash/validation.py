"""One function per kind of input; each returns a usable value or raises one clear sentence.

Nothing here repairs: a value that would have to be changed to be used is refused.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.frames import refuse_frame

Codes: TypeAlias = NDArray[np.uint8]
Vectors: TypeAlias = NDArray[np.float32]
Ids: TypeAlias = NDArray[np.int64]

#: By what vectors are near: squared distance, minus the inner product, 1 - cosine.
METRICS = ("l2", "ip", "cosine")
MAX_BITS = 4096
# More neighbours than any index has rows, and few enough to be counted by any kernel.
MAX_K = 2**31 - 1
# One below the largest int64, so that the id after the last one is a number as well.
MAX_ID = 2**63 - 2


def check_n_bits(n_bits: Any) -> int:
    """Return `n_bits` as an int between 1 and `MAX_BITS`."""
    n = _whole_number(n_bits, "n_bits")
    if not 1 <= n <= MAX_BITS:
        raise InvalidInput(f"n_bits must lie between 1 and {MAX_BITS}, got {n}")
    return n


def n_bytes_of(n_bits: int) -> int:
    """Bytes that one packed code of `n_bits` bits takes."""
    return (n_bits + 7) // 8


def check_codes(codes: ArrayLike, n_bits: int, *, name: str = "codes") -> Codes:
    """Return packed codes as a contiguous (n, n_bytes) uint8 array; a 1-D code is one row.

    Refuses another dtype, another width, and set bits in the padding after `n_bits`.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise InvalidDtype(
            f"{name} must be packed uint8, got {array.dtype}: "
            "pack bits with sghash.pack_bits, or take them from a model's encode"
        )
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise InvalidInput(f"{name} must have two dimensions, got {array.ndim}")
    expected = n_bytes_of(n_bits)
    if array.shape[1] != expected:
        raise InvalidInput(
            f"{name} are {array.shape[1]} bytes wide, {n_bits}-bit codes take {expected}: "
            "encode them with the same model"
        )
    array = np.ascontiguousarray(array)
    spare = expected * 8 - n_bits
    if spare and bool(np.any(array[:, -1] & np.uint8((1 << spare) - 1))):
        raise InvalidInput(
            f"{name} have bits set in the padding after bit {n_bits}: "
            "they are longer codes, or packed in another bit order (see sghash.bits)"
        )
    return array


def check_count(value: Any, *, name: str, least: int = 1, or_none: bool = False) -> None:
    """Refuse an option `name` that is no whole number of at least `least` (nor None if allowed)."""
    if value is None and or_none:
        return
    also = ", or None" if or_none else ""
    if _whole_number(value, name, also) < least:
        raise InvalidInput(f"{name} must be at least {least}{also}, got {value}")


def _whole_number(value: Any, name: str, also: str = "") -> int:
    """Return a whole number of any integer type as an int; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidDtype(f"{name} must be a whole number{also}, got {value!r}")
    return int(value)


def check_number(
    value: Any, *, name: str, above: float | None = None, least: float | None = None
) -> None:
    """Refuse an option `name` that is no finite number `above` one bound, or at `least` another."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InvalidDtype(f"{name} must be a number, got {value!r}")
    if not np.isfinite(value):
        raise InvalidInput(f"{name} must be finite, got {value}")
    if above is not None and not value > above:
        raise InvalidInput(f"{name} must be finite and above {above:g}, got {value}")
    if least is not None and value < least:
        raise InvalidInput(f"{name} must be at least {least:g}, got {value}")


def check_flag(value: Any, *, name: str) -> None:
    """Refuse an option `name` that is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidDtype(f"{name} must be True or False, got {value!r}")


def check_callback(callback: Any) -> None:
    """Refuse a `callback` that cannot be called, and is not the word "bar"."""
    if (
        callback is not None
        and not callable(callback)
        and not (isinstance(callback, str) and callback == "bar")
    ):
        raise InvalidDtype(
            f'callback must be a function of one argument, "bar" or None, got {callback!r}'
        )


def check_k(k: Any) -> int:
    """Return the number of neighbours asked for, 1 to `MAX_K`."""
    check_count(k, name="k")
    if k > MAX_K:
        raise InvalidInput(f"k must be at most {MAX_K} (2**31 - 1), got {k}")
    return int(k)


def check_radius(radius: Any) -> int:
    """Return a Hamming radius, a whole number that is not negative."""
    n_bits = _whole_number(radius, "radius", " of bits")
    if n_bits < 0:
        raise InvalidInput(f"radius must not be negative, got {radius}")
    return n_bits


def check_threads(threads: Any) -> int:
    """Return the number of threads to use; None means all cores this process may use."""
    check_count(threads, name="threads", or_none=True)
    return available_cores() if threads is None else int(threads)


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_ids(ids: ArrayLike, n: int | None = None, *, name: str = "ids") -> Ids:
    """Return ids as a 1-D int64 array of numbers from 0 to `MAX_ID`, of length `n` if given."""
    if isinstance(ids, (list, tuple)) and any(isinstance(i, (bool, np.bool_)) for i in ids):
        raise InvalidDtype(f"{name} must be whole numbers, got truth values")
    try:
        array = np.asarray(ids)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidInput(f"{name} must be one row of whole numbers ({error})") from error
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype == np.uint64 and (not array.size or int(array.max()) <= MAX_ID):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise InvalidDtype(
            f"{name} must be whole numbers that fit int64, got {array.dtype}: convert them, or "
            "give texts as keys"
        )
    if array.ndim == 0:
        array = array[None]
    if array.ndim != 1:
        raise InvalidInput(f"{name} must have one dimension, got {array.ndim}")
    if n is not None and len(array) != n:
        raise InvalidInput(f"got {len(array)} {name} for {n} rows: give one per row")
    if len(array) and int(array.min()) < 0:
        raise InvalidInput(
            f"{name} must not be negative: -1 marks a neighbour that is missing, leave it out with "
            "ids[ids >= 0]"
        )
    if len(array) and int(array.max()) > MAX_ID:
        raise InvalidInput(
            f"{name} must be at most {MAX_ID} (2**63 - 2), got {array.max()}: choose smaller ones"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def next_ids(first: int, n: int) -> Ids:
    """Return the n ids from `first` on, the smallest never used before."""
    if n and first + n - 1 > MAX_ID:
        raise InvalidInput(
            f"{n} more rows cannot be numbered: the next id would be {first}, the last possible "
            f"one is {MAX_ID}; give ids that are still free"
        )
    return np.arange(n, dtype=np.int64) + np.int64(first if n else 0)


def check_mask(mask: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return a boolean mask of allowed rows, of length `n`."""
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise InvalidDtype(f"mask must be boolean, got {array.dtype}")
    if array.shape != (n,):
        raise InvalidInput(f"mask has shape {array.shape}, the index has {n} rows: give ({n},)")
    return np.ascontiguousarray(array)


def check_vectors(
    vectors: ArrayLike, *, width: int | None = None, name: str = "vectors"
) -> Vectors:
    """Return vectors as a contiguous (n, d) float32 array of finite numbers; 1-D is one row."""
    refuse_frame(vectors)
    if isinstance(vectors, (str, os.PathLike)):
        raise InvalidDtype(
            f"{name} must be real numbers, got the text {os.fspath(vectors)!r}: embed texts with a "
            "model first, or open a file with sghash.open_vectors"
        )
    try:
        array = np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"{name} cannot be made into a table ({error}): give rows of one length, as in "
            "np.stack(rows)"
        ) from error
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise InvalidDtype(
            f"{name} must be real numbers, got {array.dtype}{_remedy(vectors, array)}"
        )
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise InvalidInput(f"{name} must have two dimensions, got {array.ndim}")
    if width is not None and array.shape[1] != width:
        raise InvalidInput(
            f"{name} have {array.shape[1]} columns, expected {width}: use vectors of the same kind"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} contain NaN or infinite values (in float32): clean or rescale them first"
        )
    return array


def _remedy(vectors: Any, array: NDArray[Any]) -> str:
    """What to do with something that is no table of numbers."""
    if array.dtype.kind in "UT":
        return ": embed texts with a model first"
    if hasattr(vectors, "toarray"):
        return ": give x.toarray()"
    if array.dtype.kind == "O" and array.ndim == 1 and len(array) and hasattr(array[0], "__len__"):
        return ": make one array of them, as in np.stack(list(x))"
    return ""


def check_choice(value: Any, choices: tuple[str, ...], *, name: str) -> str:
    """Return `value` if it is one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidInput(f"{name} must be one of {listed}; got {value!r}")
    return str(value)
