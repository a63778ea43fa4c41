"""The trained numbers: named arrays that are views of one flat vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from sghash.validation import Vectors


class Parameters(Mapping[str, Vectors]):
    """Named float32 arrays; `flat` is all of them in one vector, so one call updates them all."""

    def __init__(self, arrays: Mapping[str, ArrayLike]) -> None:
        shapes = {name: np.shape(value) for name, value in arrays.items()}
        self.flat: Vectors = np.zeros(
            sum(int(np.prod(shape)) for shape in shapes.values()), dtype=np.float32
        )
        self._views: dict[str, Vectors] = {}
        start = 0
        for name, shape in shapes.items():
            stop = start + int(np.prod(shape))
            self._views[name] = self.flat[start:stop].reshape(shape)
            self._views[name][...] = arrays[name]
            start = stop

    def __getitem__(self, name: str) -> Vectors:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __reduce__(self) -> tuple[type[Parameters], tuple[dict[str, Vectors]]]:
        # Copies and pickles are built anew: copied field by field, the views would come loose.
        return Parameters, (dict(self),)

    def copy(self) -> Parameters:
        """Return an independent copy."""
        return Parameters(self)

    def zeros(self) -> Parameters:
        """Return zeros of the same names and shapes, for a gradient."""
        return Parameters({name: np.zeros_like(view) for name, view in self.items()})
