"""Models of a few bits and a few vectors, for the contract that every model keeps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sghash.models import MODELS, model_class
from sghash.models.base import VectorModel

# Fewer iterations than by default, so that the whole contract takes seconds.
QUICK: dict[str, dict[str, Any]] = {
    "BinaryAutoencoder": {"n_iterations": 4},
    "DeepSGH": {"n_steps": 5, "hidden": (4,)},
    "GeneralSGH": {"n_steps": 150, "n_hidden": 16},
    "GenerativeQuantizer": {"n_bytes": 2, "n_rounds": 1},
    "KMeansHashing": {"n_iterations": 6},
    "ProductQuantizer": {"n_iterations": 4},
    "SGH": {"n_steps": 300},
    "SGH with a hidden layer": {"n_steps": 150, "hidden": 7},
    "ScaleInvariantSGH": {"n_steps": 150},
    "SphericalHashing": {"n_iterations": 20},
}
WIDTH = 6
#: Models with options that change what is learned -> their class.
VARIANTS = {"SGH with a hidden layer": "SGH"}
#: Bits of the codes that are made here, by what the codes are.
LENGTHS = {"bits": 13, "bytes": 16, "numbers": 96}


def class_of(name: str) -> type[VectorModel]:
    """The class of a model, or of a variant of one."""
    return model_class(VARIANTS.get(name, name))


ALL = [name for name in sorted(MODELS) if class_of(name)().capabilities.extra is None]
ALL += VARIANTS
#: Models whose codes are compared by Hamming distance.
NAMES = [name for name in ALL if class_of(name)().capabilities.codes == "bits"]


def make(name: str, **options: Any) -> VectorModel:
    model = class_of(name)
    known = model._get_param_names()
    wanted = {"random_state": 7, **QUICK.get(name, {}), **options}
    return model(**{key: value for key, value in wanted.items() if key in known})


def make_short(name: str, **options: Any) -> VectorModel:
    """A model of a few bits, however its option is called."""
    can = class_of(name)().capabilities
    return make(name, **{**can.length.options(LENGTHS[can.codes], model=name), **options})


def sample(n: int = 120, width: int = WIDTH, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    return (rng.normal(size=(n, width)) @ mixing * 3 + 10).astype(np.float32)


@cache
def fitted(name: str, n_bits: int | None = None) -> VectorModel:
    model = make_short(name) if n_bits is None else make(name, n_bits=n_bits)
    return model.fit(sample())


class Source:
    """Rows that can only be read in ranges, as a file beyond memory would be."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors
        self.shape, self.dtype = vectors.shape, vectors.dtype
        self.largest_read = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.largest_read = max(self.largest_read, stop - start)
        return self._vectors[start:stop]
