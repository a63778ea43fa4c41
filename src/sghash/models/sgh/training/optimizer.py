"""How a gradient moves the parameters (one flat vector), and how fast: Adam, SGD, schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
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


OPTIMIZERS = ("adam", "sgd")
SCHEDULES = ("step", "sqrt", "constant", "cosine")
ITERATES = ("last", "theorem1", "theorem2")


class Optimizer(Protocol):
    """Moves a flat parameter vector against a gradient."""

    def update(self, values: Vectors, gradient: Vectors, rate: float) -> None:
        """Change `values` in place."""
        ...


class SGD:
    """values -= rate * gradient (the update of the paper's Algorithm 1)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def update(self, values: Vectors, gradient: Vectors, rate: float) -> None:
        """Change `values` in place."""
        values -= np.float32(rate) * gradient


class Adam:
    """Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015; their constants."""

    beta1, beta2 = 0.9, 0.999

    def __init__(self, size: int) -> None:
        self.first = np.zeros(size, dtype=np.float32)
        self.second = np.zeros(size, dtype=np.float32)
        self.n_updates = 0

    def update(self, values: Vectors, gradient: Vectors, rate: float) -> None:
        """Change `values` in place."""
        from sghash.kernels.learning.training import adam_update

        self.n_updates += 1
        correction = np.sqrt(1 - self.beta2**self.n_updates) / (1 - self.beta1**self.n_updates)
        step = float(rate * correction)
        adam_update(values, gradient, self.first, self.second, step, self.beta1, self.beta2)


def make_optimizer(name: str, size: int) -> Optimizer:
    """Return a fresh optimiser for `size` numbers."""
    return Adam(size) if name == "adam" else SGD(size)


@dataclass(frozen=True)
class Schedule:
    """Learning rate and divergence weight at every step of a budget of `n_steps`.

    Steps count from 0; beyond the budget (online learning) the last values stay.
    """

    n_steps: int
    kind: str
    learning_rate: float
    decay: float
    decay_every: int
    kl_weight: float | tuple[float, float]

    def rate(self, step: int) -> float:
        """Learning rate gamma of `step`."""
        if self.kind == "constant":
            return self.learning_rate
        if self.kind == "sqrt":
            return self.learning_rate / float(np.sqrt(step + 1))
        if self.kind == "cosine":
            done = min(step, self.n_steps - 1) / self.n_steps
            return self.learning_rate * 0.5 * (1 + float(np.cos(np.pi * done)))
        n_decays = min(step, self.n_steps - 1) // self.decay_every
        return self.learning_rate * float(self.decay**n_decays)

    def weight(self, step: int) -> float:
        """Weight of the divergence at `step`: a number, or on the line from start to end.

        The line ends after three quarters of the budget: the last quarter settles at its end.
        """
        if not isinstance(self.kl_weight, tuple):
            return float(self.kl_weight)
        start, end = self.kl_weight
        done = min(1.0, step / max(1.0, 0.75 * self.n_steps))
        return start + (end - start) * done

    def rates(self) -> NDArray[np.float64]:
        """Learning rates of the whole budget, (n_steps,)."""
        return np.array([self.rate(step) for step in range(self.n_steps)])


def iterate_probabilities(
    rates: Sequence[float] | NDArray[np.float64], iterate: str, smoothness: float = 1.0
) -> NDArray[np.float64]:
    """P(R = i) of the iterate that the convergence theorems return, for learning rates gamma_i.

    "theorem1": proportional to 2 gamma_i - L gamma_i², L the `smoothness` constant, which must
    leave all of them positive; "theorem2": proportional to gamma_i; "last": the last one.
    """
    gammas = np.asarray(rates, dtype=np.float64)
    if iterate == "last":
        weights = np.zeros_like(gammas)
        weights[-1] = 1.0
    elif iterate == "theorem1":
        weights = 2 * gammas - smoothness * gammas**2
        if weights.min() <= 0:
            raise InvalidInput(
                f"theorem 1 needs every learning rate below 2 / smoothness = {2 / smoothness:g}, "
                f"the largest is {gammas.max():g}: use a smaller learning_rate"
            )
    else:
        weights = gammas
    return weights / weights.sum()
