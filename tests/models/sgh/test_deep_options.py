"""The options of `DeepSGH`, which are checked before PyTorch is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models import DeepSGH
from sghash.models.base import VectorModel

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


def test_the_length_may_come_first() -> None:
    assert DeepSGH(24).n_bits == 24
    with pytest.raises(TypeError, match="positional"):
        DeepSGH(24, None)  # type: ignore[misc]


def test_a_weight_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^pair_weight=3.0 would have no effect, since .+: .+"):
        DeepSGH(8, neighbors=0, pair_weight=3.0).fit(X)


@pytest.mark.parametrize("seed", [-1, "seed", 1.5])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(InvalidInput, match="random_state must be"):
        DeepSGH(8, random_state=seed).fit(X)


def test_no_model_has_a_way_to_learn_that_cannot_be_reached() -> None:
    """`fit` of the base class is the only caller of `_fit`."""
    from sghash import SGH

    for model in (SGH, DeepSGH):
        assert model.fit is not VectorModel.fit and model._fit is VectorModel._fit
