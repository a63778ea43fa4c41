"""A network as plain data: a list of layers and one flat vector of numbers, run by NumPy.

{"kind": "linear", "shape": [a, b]}     x @ W + c, with a * b numbers of W, then b of c
{"kind": "relu" | "tanh" | "sigmoid"}   each entry by itself
{"kind": "affine", "size": a}           x * g + c, with a numbers of g, then a of c
{"kind": "sum", "parts": [layers, ...]} the sum of what several lists make of the same x
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sghash.errors import BadFile
from sghash.validation import Vectors

Layers: TypeAlias = list[dict[str, Any]]


def _sigmoid(x: Vectors) -> Vectors:
    return (0.5 * (np.tanh(0.5 * x) + 1)).astype(np.float32)


_ENTRYWISE = {
    "relu": lambda x: np.maximum(x, 0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "sigmoid": _sigmoid,
}


def linear(weights: Vectors, bias: Vectors) -> tuple[Layers, Vectors]:
    """One linear layer x @ `weights` (a, b) + `bias` (b,)."""
    layer = {"kind": "linear", "shape": [int(size) for size in weights.shape]}
    return [layer], np.concatenate([weights.ravel(), bias]).astype(np.float32)


def chain(first: tuple[Layers, Vectors], second: tuple[Layers, Vectors]) -> tuple[Layers, Vectors]:
    """Run `first`, then `second`; linear layers that meet become one."""
    if second[0] and second[0][0]["kind"] == "affine" and first[0]:
        size = second[0][0]["size"]
        gain, shift, after = np.split(second[1], [size, 2 * size])
        if first[0][-1]["kind"] == "linear":
            layers, own = linear(np.diag(gain), shift)
            second = [*layers, *second[0][1:]], np.concatenate([own, after])
    if first[0] and second[0] and first[0][-1]["kind"] == second[0][0]["kind"] == "linear":
        (a, b), (_, c) = first[0][-1]["shape"], second[0][0]["shape"]
        n_first, n_second = a * b + b, b * c + c
        before, mine = np.split(first[1].astype(np.float64), [first[1].size - n_first])
        theirs, rest = np.split(second[1].astype(np.float64), [n_second])
        weights, onward = mine[: a * b].reshape(a, b), theirs[: b * c].reshape(b, c)
        merged = [(weights @ onward).ravel(), mine[a * b :] @ onward + theirs[b * c :]]
        layer = {"kind": "linear", "shape": [a, c]}
        joined = np.concatenate([before, *merged, rest]).astype(np.float32)
        return [*first[0][:-1], layer, *second[0][1:]], joined
    if (
        len(first[0]) == 1
        and first[0][0]["kind"] == "linear"
        and second[0]
        and second[0][0]["kind"] == "sum"
    ):
        return _into_sum(first, second)
    return [*first[0], *second[0]], np.concatenate([first[1], second[1]])


def _into_sum(
    first: tuple[Layers, Vectors], second: tuple[Layers, Vectors]
) -> tuple[Layers, Vectors]:
    """A linear layer before a sum is merged into each of its parts."""
    parts, numbers, place = [], [], 0
    for part in second[0][0]["parts"]:
        size = count(part)
        layers, values = chain(first, (part, second[1][place : place + size]))
        parts.append(layers)
        numbers.append(values)
        place += size
    rest = second[1][place:]
    return [{"kind": "sum", "parts": parts}, *second[0][1:]], np.concatenate([*numbers, rest])


def count(layers: Layers) -> int:
    """How many numbers the layers take."""
    total = 0
    for layer in layers:
        kind = layer.get("kind")
        if kind == "linear":
            a, b = layer["shape"]
            total += a * b + b
        elif kind == "affine":
            total += 2 * int(layer["size"])
        elif kind == "sum":
            total += sum(count(part) for part in layer["parts"])
        elif kind not in _ENTRYWISE:
            raise BadFile(f"the network has a layer of unknown kind {kind!r}: upgrade sghash")
    return total


def forward(layers: Layers, numbers: Vectors, vectors: Vectors) -> Vectors:
    """Run the network on vectors (n, a) float32; (n, b) float32."""
    if count(layers) != numbers.size:
        raise BadFile(
            f"the network takes {count(layers)} numbers, there are {numbers.size}: save it again"
        )
    return _run(layers, numbers, vectors)


def _run(layers: Layers, numbers: Vectors, x: Vectors) -> Vectors:
    place, given = 0, x
    for layer in layers:
        kind = layer["kind"]
        if kind == "linear":
            a, b = layer["shape"]
            weights = numbers[place : place + a * b].reshape(a, b)
            x = x @ weights
            x += numbers[place + a * b : place + a * b + b]
            place += a * b + b
        elif kind == "affine":
            size = layer["size"]
            x = x * numbers[place : place + size] + numbers[place + size : place + 2 * size]
            place += 2 * size
        elif kind == "sum":
            total = None
            for part in layer["parts"]:
                size = count(part)
                value = _run(part, numbers[place : place + size], x)
                total = value if total is None else total + value
                place += size
            x = x if total is None else total
        else:
            x = _ENTRYWISE[kind](x.copy() if x is given else x)
    return x
