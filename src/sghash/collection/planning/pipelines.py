"""What a collection may consist of: the code of a row, what is kept beside it, and their bytes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from sghash.errors import InvalidInput
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, row_columns
from sghash.models import model_class

#: Kinds of kept vectors, from few bytes to many.
KINDS = ("int4", "int8", "float16", "float32")
#: Bits of codes that only make a shortlist for kept vectors.
SHORTLIST_BITS = (64, 128, 256)
#: Bytes of codes that stand alone where the caller says no number.
ALONE_BYTES = (8, 16, 32, 64, 128)
# A generative quantizer has codes of 2 to 32 bytes.
_QUANTIZER_BYTES = range(2, 33)
_HIDDEN_UNITS = 512
# A hidden layer wins where bits are few.
_HIDDEN_BYTES = range(1, 9)


def bytes_of(width: int, kind: str) -> int:
    """Bytes of a kept vector."""
    stored = KEPT_KINDS[kind]
    return row_columns(stored, width) * stored.itemsize


class Pipeline(NamedTuple):
    """A model by name and options, the bytes of its code, and the kind of kept vectors."""

    model: str
    options: dict[str, Any]
    code_bytes: int
    keep: str | None = None
    kept_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of a row: its code and its kept vector."""
        return self.code_bytes + self.kept_bytes

    @property
    def code_name(self) -> str:
        """The code in a few words."""
        if self.model in ("GenerativeQuantizer", "ProductQuantizer"):
            return f"{self.model}, {self.code_bytes} bytes"
        hidden = f", {self.options['hidden']} hidden units" if "hidden" in self.options else ""
        return f"{self.model}, {8 * self.code_bytes} bits{hidden}"

    @property
    def name(self) -> str:
        """All of it in a few words."""
        return self.code_name if self.keep is None else f"{self.code_name}, {self.keep} vectors"

    def new_model(self, metric: str, random_state: int, **more: Any) -> Any:
        """The model, not fitted."""
        model = model_class(self.model)
        options = {**self.options, "random_state": random_state, **more}
        if "metric" in inspect.signature(model).parameters:
            options["metric"] = metric
        return model(**options)


def binary(n_bits: int, **options: Any) -> Pipeline:
    """Codes of SGH."""
    return Pipeline("SGH", {"n_bits": n_bits, **options}, n_bits // 8)


def quantized(model: str, n_bytes: int) -> Pipeline:
    """Codes of a quantizer, a byte for each of its parts."""
    name = "n_parts" if model == "ProductQuantizer" else "n_bytes"
    return Pipeline(model, {name: n_bytes}, n_bytes)


def codes_for_shortlists(most_bytes: int | None) -> list[Pipeline]:
    """Codes that let rows through to kept vectors; at least the shortest."""
    fitting = [bits for bits in SHORTLIST_BITS if most_bytes is None or bits // 8 <= most_bytes]
    return [binary(bits) for bits in fitting]


def codes_alone(bytes_per_vector: int | None, width: int) -> list[Pipeline]:
    """Codes that decide by themselves, of at most so many bytes, or of several lengths."""
    if bytes_per_vector is None:
        return [
            quantized("GenerativeQuantizer", length)
            if length in _QUANTIZER_BYTES
            else binary(8 * length)
            for length in ALONE_BYTES
            # Beyond that the vectors themselves, in half precision, would be as short.
            if length == ALONE_BYTES[0] or length <= 2 * width
        ]
    length = min(bytes_per_vector, ALONE_BYTES[-1])
    found = [binary(8 * length)]
    if length in _QUANTIZER_BYTES or length > _QUANTIZER_BYTES[-1]:
        found.insert(0, quantized("GenerativeQuantizer", min(length, _QUANTIZER_BYTES[-1])))
    found.append(quantized("ProductQuantizer", min(length, width, _QUANTIZER_BYTES[-1])))
    if length in _HIDDEN_BYTES:
        found.append(binary(8 * length, neighbors=10, hidden=_HIDDEN_UNITS))
    return found


def kinds_to_try(keep_vectors: str | None) -> Sequence[str]:
    """Kinds of kept vectors that may be chosen, from few bytes to many; none for None."""
    if keep_vectors is None:
        return ()
    if keep_vectors == "auto":
        return KINDS
    if keep_vectors in KINDS:
        return (keep_vectors,)
    known = ", ".join(f'"{kind}"' for kind in ("auto", *KINDS))
    raise InvalidInput(f"keep_vectors must be {known} or None, got {keep_vectors!r}")
