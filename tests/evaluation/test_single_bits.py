"""The worth of bits, on codes whose bits are made to be worth something or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sghash import SGH, InvalidInput, ProductQuantizer
from sghash.bits import pack_bits
from sghash.evaluation import bit_values, evaluate
from sghash.models import LSH
from sghash.models.capabilities import Capabilities


class MadeBits:
    """Signs of the columns, then a copy of the first, then a constant."""

    n_bits = 6
    capabilities = Capabilities()

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        signs = vectors > 0
        extra = np.stack([signs[:, 0], np.ones(len(vectors), dtype=bool)], axis=1)
        return pack_bits(np.concatenate([signs, extra], axis=1))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    scales = np.array([3.0, 2.0, 1.0, 0.1])
    return (np.random.default_rng(0).standard_normal((1500, 4)) * scales).astype(np.float32)


def test_copies_constants_and_useful_bits_are_told_apart(rows: np.ndarray) -> None:
    found = bit_values(MadeBits(), rows[200:], rows[:200], k=5, n=50, threads=1)
    assert found.entropies[:5].min() > 0.98 and found.entropies[5] == 0 and found.shares[5] == 1
    assert found.correlations[0, 4] == pytest.approx(1) and found.correlations[0, 5] == 0
    assert abs(found.correlations[0, 1]) < 0.1
    # The constant is worth nothing; a wide column more than a narrow one.
    assert found.recall_without[5] == found.recall
    assert found.recall_without[1] < found.recall_without[3]
    assert np.isnan(found.error_without).all()
    assert len(found.text().splitlines()) == 1 + 6


def test_the_error_without_a_bit_is_that_of_decoding_without_it(rows: np.ndarray) -> None:
    model: Any = SGH(n_bits=6, n_steps=100, random_state=0).fit(rows)
    found = bit_values(model, rows[200:], rows[:200], threads=1)
    bits = model.transform(rows[200:]).astype(bool)
    bits[:, 2] = bits[:, 2].mean() > 0.5
    without = np.square(rows[200:] - model.decode(pack_bits(bits))).mean()
    whole = np.square(rows[200:] - model.decode(model.encode(rows[200:]))).mean()
    assert found.error_without[2] == pytest.approx(without / whole, rel=1e-4)
    assert found.error_without.max() > 1.05


def test_models_that_cannot_decode(rows: np.ndarray) -> None:
    found = bit_values(LSH(n_bits=5, random_state=0).fit(rows), rows[9:], rows[:9], threads=1)
    assert found.recall_without.shape == (5,)


def test_the_best_codes_within_a_budget(rows: np.ndarray) -> None:
    found = evaluate(rows, models=("LSH",), n_bits=(8, 24), threads=1)
    best = found.best_within(3)
    assert best is not None and best[:2] == ("LSH", 24)
    smaller = found.best_within(1)
    assert smaller is not None and smaller[:2] == ("LSH", 8) and smaller[2] < best[2]
    assert found.best_within(0) is None


def test_codes_without_single_bits_are_refused(rows: np.ndarray) -> None:
    model = ProductQuantizer(n_parts=2, n_iterations=1, random_state=0).fit(rows)
    with pytest.raises(InvalidInput, match="codes of ProductQuantizer are no bits"):
        bit_values(model, rows[200:], rows[:200])
