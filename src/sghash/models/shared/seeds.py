"""The one way from a `random_state` to random numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sghash.errors import InvalidInput

#: What every `random_state` may be.
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def generator_of(random_state: Any) -> np.random.Generator:
    """Return a generator for an int, a `Generator` (used as it is), a `RandomState` or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 1 << 31, size=4))
    is_number = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if random_state is None or (is_number and random_state >= 0):
        return np.random.default_rng(random_state)
    raise InvalidInput(
        "random_state must be None, a whole number of at least 0, a NumPy Generator or a "
        f"RandomState, got {' '.join(repr(random_state).split())}"
    )
