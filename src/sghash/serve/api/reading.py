"""Bodies in: JSON, `.npy` and Arrow, checked before anything is done with them."""

from __future__ import annotations

import base64
import binascii
import io
import threading
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from sghash.data.readers.npy import read_header
from sghash.errors import BadFile, InvalidDtype, InvalidInput
from sghash.serve.api import arrow
from sghash.serve.api.requests import Request
from sghash.serve.refusals import Refusal
from sghash.serve.settings import Limits

JSON, NDJSON = "application/json", "application/x-ndjson"
NPY, ARROW = "application/x-npy", "application/vnd.apache.arrow.stream"
R = TypeVar("R", bound=Request)
# Large bodies of JSON take many times their length: one at a time.
_LARGE_JSON = 1 << 20
_large_json = threading.Lock()
_BODY = Path("the body")


class Body(NamedTuple):
    """A body as it came."""

    data: bytes
    kind: str
    parameters: QueryParams


class Shape(NamedTuple):
    """What a verb takes: as JSON; beside other bodies; and which field an array is."""

    model: type[Request]
    options: type[Request]
    field: str


def kind_of(content_type: str) -> str:
    """The kind of a body, without its parameters; refused if it is none that can be read."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (JSON, NPY, ARROW):
        raise Refusal(
            415, f"the body is {kind[:60] or 'of no kind'}: send {JSON}, {NPY} or {ARROW}"
        )
    return kind


def read_request(body: Body, shape: Shape, limits: Limits) -> dict[str, Any]:
    """The fields of a request, all of them; vectors and codes are arrays by then."""
    fields = _given(body, shape, limits)
    for name, field in shape.model.model_fields.items():
        if fields.get(name) is None and field.is_required():
            raise Refusal(422, f"the field {name!r} is missing: give it")
        if name not in fields:
            fields[name] = field.get_default()
    return fields


def _given(body: Body, shape: Shape, limits: Limits) -> dict[str, Any]:
    if body.kind == JSON:
        if body.parameters:
            raise Refusal(400, "beside JSON an address takes no parameters: put them into the body")
        if len(body.data) > _LARGE_JSON:
            with _large_json:
                return _of_json(body.data, shape.model)
        return _of_json(body.data, shape.model)
    options = read_parameters(body.parameters, shape.options)
    if body.kind == NPY:
        array = read_npy(body.data)
        # Bytes in a search are codes: a vector of bytes can be sent as another kind of number.
        is_codes = "codes" in shape.model.model_fields and array.dtype == np.uint8
        if shape.field == "ids":
            return options | {"ids": _ids(array)}
        return options | {"codes" if is_codes else shape.field: array}
    fields = arrow.read_table(body.data, set(shape.model.model_fields), shape.field, limits)
    return options | fields


def _of_json(data: bytes, model: type[R]) -> dict[str, Any]:
    try:
        found = model.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise _refusal(error) from None
    fields = dict(vars(found))
    for name, read in (("queries", _vectors), ("vectors", _vectors), ("codes", _codes)):
        if fields.get(name) is not None:
            fields[name] = read(fields[name], name)
    return fields


def read_parameters(parameters: QueryParams, options: type[R]) -> dict[str, Any]:
    """The parameters of an address, each at most once."""
    given = dict(parameters)
    if len(given) != len(parameters.multi_items()):
        raise Refusal(400, "a parameter of the address is given twice: give each once")
    try:
        found = options.model_validate_strings(given)
    except ValidationError as error:
        raise _refusal(error) from None
    return dict(vars(found))


def _refusal(error: ValidationError) -> Refusal:
    """The first thing that is wrong, in one sentence."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:120]
    text = first["msg"][:300]
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON ({text}): send one object")
    if first["type"] == "extra_forbidden":
        return Refusal(422, f"there is no field {place!r} here: leave it out, or see /docs")
    if first["type"] == "missing":
        return Refusal(422, f"the field {place!r} is missing: give it")
    where = f"{place}: " if place else ""
    return Refusal(422, f"{where}{text[:1].lower()}{text[1:]}; see /docs for what it takes")


def _vectors(value: Any, name: str) -> NDArray[Any]:
    """An array of numbers, of lists or of a `.npy` in base64."""
    if isinstance(value, str):
        return read_npy(_of_base64(value, name))
    rows = value if isinstance(value, list) else [value]
    flat = [rows] if rows and not isinstance(rows[0], list) else rows
    for row in flat:
        if not isinstance(row, list) or not set(map(type, row)) <= {int, float}:
            raise InvalidDtype(f"{name} must be rows of numbers, as in [[0.5, 1], [2, 0.1]]")
    try:
        array = np.array(rows, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be rows of one length, of numbers in float32") from error
    return array


def _ids(array: NDArray[Any]) -> list[int]:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidDtype("ids must be one dimension of whole numbers")
    listed: list[int] = array.tolist()
    return listed


def _codes(value: Any, name: str) -> NDArray[np.uint8]:
    """Packed codes of texts in hexadecimal, or of a `.npy` in base64."""
    if isinstance(value, str):
        return read_npy(_of_base64(value, name))
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise InvalidDtype(f'{name} must be texts in hexadecimal, as in ["a0ff", "07c1"]')
    if len({len(code) for code in value}) > 1:
        raise InvalidInput(f"{name} must be of one length")
    try:
        # bytes.fromhex allows blanks, which would let codes shift.
        raw = binascii.unhexlify("".join(value))
    except (ValueError, UnicodeError) as error:
        raise InvalidInput(f"{name} must be texts in hexadecimal ({error})") from error
    n_bytes = len(value[0]) // 2 if value else 0
    if value and (len(value[0]) % 2 or not n_bytes):
        raise InvalidInput(f"{name} must have two hexadecimal digits per byte")
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(value), n_bytes)


def _of_base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise InvalidInput(f"{name} is a text that is no base64 of a .npy ({error})") from error


def read_npy(data: bytes) -> NDArray[Any]:
    """An array of plain numbers, of one or two dimensions, without a copy."""
    stream = io.BytesIO(data)
    try:
        header = read_header(stream, _BODY)
    except BadFile as error:
        raise Refusal(400, str(error), error="BadFile") from error
    shape, dtype = header.shape, header.dtype
    size = dtype.itemsize
    for length in shape:
        size *= length
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or not 1 <= len(shape) <= 2:
        raise Refusal(400, "the .npy must hold one or two dimensions of real numbers")
    if min(shape) < 0 or size != len(data) - header.size:
        raise Refusal(400, "the .npy is cut short, or too long for what its header says")
    values = np.frombuffer(data, dtype=dtype, offset=header.size)
    try:
        return values.reshape(shape, order="F" if header.by_columns else "C")
    except (ValueError, OverflowError) as error:  # no bytes, and more rows of them than can be
        raise Refusal(400, "the .npy has a shape that no array can have") from error
