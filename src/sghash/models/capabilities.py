"""What a model can do beyond `fit` and `encode`, declared by its class and asked for in one way."""

from __future__ import annotations

import importlib
import os
from typing import Any, NamedTuple

from sghash.errors import InvalidInput
from sghash.validation import MAX_BITS, check_n_bits


class Length(NamedTuple):
    """The option that says how long a code is: its name, the bits of one unit, and its range."""

    option: str = "n_bits"
    bits_per_unit: int = 1
    least: int = 1
    most: int = MAX_BITS

    def options(self, n_bits: int, *, model: str) -> dict[str, int]:
        """The option for codes of `n_bits` bits; refuse a length that codes of `model` have not."""
        units, rest = divmod(check_n_bits(n_bits), self.bits_per_unit)
        if rest:
            raise InvalidInput(
                f"the length of codes of {model} is a multiple of {self.bits_per_unit} bits, got "
                f"{n_bits}: give such a length"
            )
        if not self.least <= units <= self.most:
            lowest, highest = self.least * self.bits_per_unit, self.most * self.bits_per_unit
            raise InvalidInput(
                f"codes of {model} have {lowest} to {highest} bits, got {n_bits}: give a length "
                "between"
            )
        return {self.option: units}


class Capabilities(NamedTuple):
    """What callers may use of a model.

    `codes` are "bits" (compared by Hamming distance), "bytes" (compared through query tables) or
    "numbers" (decoded and compared as vectors).
    """

    codes: str = "bits"
    #: The option that says how long codes are.
    length: Length = Length()
    #: `decode` turns codes into vectors.
    decodes: bool = False
    #: `query_tables` and `code_layout` score real queries against codes.
    tables: bool = False
    #: `encode` takes `sweeps`.
    sharpens: bool = False
    #: `partial_fit` goes on learning.
    online: bool = False
    #: `fit` learns from labels or pairs.
    supervised: bool = False
    #: `to_onnx` writes the encoder.
    onnx: bool = False
    #: The extra of sghash that `fit` needs, named like the package it brings.
    extra: str | None = None


def onnx_of(model: Any, path: str | os.PathLike[str] | None) -> Any:
    """The encoder of a model as ONNX, or a sentence that says which models have one."""
    if not model.capabilities.onnx:
        raise InvalidInput(
            f"{type(model).__name__} cannot be written as ONNX: use SGH, ITQ, LSH, PCAHashing or "
            "SignHashing, or encode where sghash is installed"
        )
    # Adapters stand above models: this one is looked for when it is asked for.
    return importlib.import_module("sghash.adapters.exports.onnx").to_onnx(model, path)
