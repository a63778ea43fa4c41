"""Names of the columns of `transform`, as scikit-learn wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.models.inputs import check_is_fitted


def output_names(
    model: Any, input_features: ArrayLike | None, prefix: str, n: int
) -> NDArray[np.object_]:
    """`prefix`0, `prefix`1, ... for `n` columns, once `input_features` fit a fitted model."""
    check_is_fitted(model)
    # scikit-learn has no public name for the check that its own estimators make here.
    from sklearn.utils.validation import _check_feature_names_in

    _check_feature_names_in(model, input_features, generate_names=False)
    return np.asarray([f"{prefix}{k}" for k in range(n)], dtype=object)
