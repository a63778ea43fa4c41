"""A small fitted model, and vectors that it was not fitted on."""

from __future__ import annotations

import numpy as np
import pytest

import sghash

WIDTH = 12


@pytest.fixture(scope="session")
def model():
    training = np.random.default_rng(5).standard_normal((400, WIDTH)).astype(np.float32)
    return sghash.ITQ(n_bits=20, random_state=0).fit(training)


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((300, WIDTH)).astype(np.float32)
