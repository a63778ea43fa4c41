"""Arrays and values as JSON that a browser reads back without loss."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What a browser has typed arrays for.
_TYPES = ("uint8", "int8", "int16", "uint16", "int32", "float32")


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """An array as its type, its shape and its bytes (little-endian, base64)."""
    if array.dtype.name not in _TYPES:
        raise TypeError(f"a browser has no {array.dtype.name}: convert to one of {_TYPES}")
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(data.tobytes()).decode("ascii"),
    }


def unpacked(value: dict[str, Any]) -> NDArray[Any]:
    """The array again; for those who read an export in Python."""
    dtype = np.dtype(value["dtype"]).newbyteorder("<")
    return np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(value["shape"])


def plain(value: Any) -> Any:
    """A metadata value for JSON: what JSON has no number for becomes a text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)
    return value


def json_text(value: Any) -> str:
    """JSON without spaces; NaN and infinities are a fault."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
