"""Ready networks, and how a network becomes the layers that NumPy runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.variants.deep_layers import Layers, chain, linear
from sghash.optional import require
from sghash.validation import Vectors

torch: Any = require("torch", extra="torch")
nn: Any = torch.nn


class SkipEncoder(nn.Module):
    """A linear map plus hidden layers (linear, batch normalisation, ReLU) that start at zero.

    So training starts at the codes of the linear map, and the hidden layers learn what it lacks.
    """

    def __init__(self, n_inputs: int, n_bits: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        self.straight = nn.Linear(n_inputs, n_bits)
        layers: list[Any] = []
        width = n_inputs
        for size in hidden:
            layers += [nn.Linear(width, size), nn.BatchNorm1d(size), nn.ReLU()]
            width = size
        last = nn.Linear(width, n_bits)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.bent = nn.Sequential(*layers, last)

    def forward(self, x: Any) -> Any:
        """Logits (m, n_bits) of vectors (m, n_inputs)."""
        return self.straight(x) + self.bent(x)


def as_layers(module: Any) -> tuple[Layers, Vectors] | None:
    """The network for NumPy, as it is when it is used; None if a part of it is unknown there.

    Known are `SkipEncoder`, Sequential, Linear, ReLU, Tanh, Sigmoid, BatchNorm1d, Dropout and
    Identity, without hooks; batch normalisation becomes part of the linear layer before it.
    """
    no_layers: tuple[Layers, Vectors] = ([], np.empty(0, dtype=np.float32))
    if not _runs_as_built(module):
        return None
    if isinstance(module, SkipEncoder):
        straight, bent = as_layers(module.straight), as_layers(module.bent)
        if straight is None or bent is None:
            return None
        numbers = np.concatenate([straight[1], bent[1]])
        return [{"kind": "sum", "parts": [straight[0], bent[0]]}], numbers
    if isinstance(module, nn.Sequential):
        found = no_layers
        for part in module:
            layers = as_layers(part)
            if layers is None:
                return None
            found = chain(found, layers)
        return found
    if isinstance(module, nn.Linear):
        weights = _array(module.weight).T
        bias = np.zeros(weights.shape[1]) if module.bias is None else _array(module.bias)
        return linear(weights, bias)
    if isinstance(module, nn.BatchNorm1d):
        return _normalisation(module)
    if isinstance(module, (nn.Dropout, nn.Identity)):
        return no_layers
    for kind, cls in (("relu", nn.ReLU), ("tanh", nn.Tanh), ("sigmoid", nn.Sigmoid)):
        if isinstance(module, cls):
            return [{"kind": kind}], no_layers[1]
    return None


def _runs_as_built(module: Any) -> bool:
    """Whether a module does what the known class that it is or comes from does."""
    known = (
        SkipEncoder, nn.Sequential, nn.Linear, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.BatchNorm1d,
        nn.Dropout, nn.Identity,
    )  # fmt: skip
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        return False
    return any(isinstance(module, cls) and type(module).forward is cls.forward for cls in known)


def _normalisation(module: Any) -> tuple[Layers, Vectors] | None:
    if module.running_mean is None:
        return None
    mean, variance = _array(module.running_mean), _array(module.running_var)
    gain = np.ones_like(mean) if module.weight is None else _array(module.weight)
    shift = np.zeros_like(mean) if module.bias is None else _array(module.bias)
    gain = gain / np.sqrt(variance + module.eps)
    numbers = np.concatenate([gain, shift - mean * gain])
    return [{"kind": "affine", "size": int(mean.size)}], numbers.astype(np.float32)


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy().astype(np.float64)


def check_module(module: Any, name: str) -> None:
    """Refuse what is not a network."""
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"{name} must be a torch.nn.Module or None, got {module!r}")
