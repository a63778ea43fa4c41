"""ONNX: an encoder as a graph that turns vectors float32 into packed codes uint8, anywhere.

The graph holds the model's own numbers and does what `encode` does, so its codes are equal to
those of `encode` but where a projection is zero within the rounding of float32 sums. It does not
look for NaN, which `encode` refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sghash.errors import InvalidInput
from sghash.files import write_atomically
from sghash.models.base import BinaryHasher
from sghash.models.baselines.itq import ITQ
from sghash.models.baselines.lsh import LSH
from sghash.models.baselines.pca import PCAHashing
from sghash.models.baselines.sign import SignHashing
from sghash.models.sgh.estimator import SGH
from sghash.optional import require
from sghash.validation import Vectors, n_bytes_of

_OPSET = 13
#: The version of the file format that goes with it, for runtimes of these years.
_IR_VERSION = 8


class Encoder(NamedTuple):
    """A bit is set where ((x / |x|) - center) @ weights + bias + relu(x V + c) O > 0.

    Rows are divided by their lengths where `unit`; `hidden` is (V, c, O) or None.
    """

    weights: Vectors
    center: Vectors | None = None
    bias: Vectors | None = None
    hidden: tuple[Vectors, Vectors, Vectors] | None = None
    unit: bool = False


def _of_sgh(model: Any) -> Encoder:
    hidden = None
    if model.hidden:
        hidden = (model.hidden_weights_, model.hidden_bias_, model.hidden_output_)
    return Encoder(
        model.encoder_weights_, None, model.encoder_bias_, hidden, model.metric == "cosine"
    )


def _of_projection(model: Any) -> Encoder:
    return Encoder(model.projection_, model.mean_)


def _of_signs(model: Any) -> Encoder:
    n_coordinates = model.n_bits - model.directions_.shape[1]
    own = np.eye(len(model.threshold_), n_coordinates, dtype=np.float32)
    return Encoder(np.hstack([own, model.directions_]), model.threshold_)


#: Models that can be written, and how they encode.
ENCODERS: dict[type[BinaryHasher], Callable[[Any], Encoder]] = {
    SGH: _of_sgh,
    ITQ: _of_projection,
    LSH: _of_projection,
    PCAHashing: _of_projection,
    SignHashing: _of_signs,
}


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Return a fitted model's encoder as an ONNX `ModelProto`, and write it to `path` if given.

    Its input is `vectors` (n, d) float32, its output `codes` (n, n_bytes) uint8. The file's
    metadata hold the model's class, `n_bits` and fingerprint.
    """
    onnx = require("onnx", extra="onnx")
    if type(model) not in ENCODERS:
        known = ", ".join(kind.__name__ for kind in ENCODERS)
        raise InvalidInput(
            f"{type(model).__name__} cannot be written as ONNX: use one of {known}, or encode "
            "where sghash is installed"
        )
    fingerprint = model.fingerprint_
    graph = _Graph(onnx)
    encoder = ENCODERS[type(model)](model)
    bits = graph.node("Greater", _logits(graph, encoder), graph.array(np.float32(0)))
    _pack(graph, bits, int(model.n_bits))
    made = graph.model(int(model.n_features_in_), n_bytes_of(model.n_bits))
    for name, value in (
        ("model", type(model).__name__),
        ("n_bits", str(model.n_bits)),
        ("fingerprint", fingerprint),
    ):
        made.metadata_props.add(key=f"sghash.{name}", value=value)
    onnx.checker.check_model(made)
    if path is not None:
        data = made.SerializeToString()
        write_atomically(path, lambda new: new.write(data))
    return made


class _Graph:
    """Nodes in the order they are added, each known by the name of its output."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._arrays: list[Any] = []

    def array(self, values: Any) -> str:
        """The name of a constant."""
        name = f"constant{len(self._arrays)}"
        array = np.ascontiguousarray(values).reshape(np.shape(values))
        self._arrays.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """The name of what an operation gives."""
        name = output or f"value{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def model(self, width: int, n_bytes: int) -> Any:
        """All of it."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        graph = helper.make_graph(
            self._nodes, "sghash",
            [helper.make_tensor_value_info("vectors", kinds.FLOAT, ["n", width])],
            [helper.make_tensor_value_info("codes", kinds.UINT8, ["n", n_bytes])],
            self._arrays,
        )  # fmt: skip
        return helper.make_model(
            graph, producer_name="sghash", ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )  # fmt: skip


def _logits(graph: _Graph, encoder: Encoder) -> str:
    def constant(values: Any) -> str:
        return graph.array(np.asarray(values, dtype=np.float32))

    rows = "vectors"
    if encoder.unit:
        # The squares of very large or small numbers are none in float32: the largest becomes 1.
        sizes = graph.node("ReduceMax", graph.node("Abs", rows), axes=[1], keepdims=1)
        # A vector of zeros has no direction, and stays as it is.
        none = graph.node("Equal", sizes, constant(0))
        rows = graph.node("Div", rows, graph.node("Where", none, constant(1), sizes))
        lengths = graph.node("ReduceL2", rows, axes=[1], keepdims=1)
        rows = graph.node("Div", rows, graph.node("Where", none, constant(1), lengths))
    if encoder.center is not None:
        rows = graph.node("Sub", rows, constant(encoder.center))
    logits = graph.node("MatMul", rows, constant(encoder.weights))
    if encoder.hidden is not None:
        weights, bias, output = encoder.hidden
        units = graph.node("Add", graph.node("MatMul", rows, constant(weights)), constant(bias))
        more = graph.node("MatMul", graph.node("Relu", units), constant(output))
        logits = graph.node("Add", logits, more)
    if encoder.bias is not None:
        logits = graph.node("Add", logits, constant(encoder.bias))
    return logits


def _pack(graph: _Graph, bits: str, n_bits: int) -> None:
    """Eight bits to a byte, the first most significant: a sum of 128, 64, ..., 1."""
    n_bytes, kind = n_bytes_of(n_bits), 1  # of a float in ONNX
    numbers = graph.node("Cast", bits, to=kind)
    spare = 8 * n_bytes - n_bits
    if spare:
        ends = graph.array(np.asarray([0, 0, 0, spare], dtype=np.int64))
        numbers = graph.node("Pad", numbers, ends, graph.array(np.float32(0)))
    shape = graph.array(np.asarray([0, n_bytes, 8], dtype=np.int64))  # 0: as many as there are
    grouped = graph.node("Reshape", numbers, shape)
    places = graph.array(np.asarray(2.0 ** np.arange(7, -1, -1), dtype=np.float32))
    last = graph.array(np.asarray([2], dtype=np.int64))
    sums = graph.node("ReduceSum", graph.node("Mul", grouped, places), last, keepdims=0)
    graph.node("Cast", sums, to=2, output="codes")
