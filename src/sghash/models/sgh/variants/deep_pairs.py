"""Pairs of vectors that shall have near codes: neighbours within a sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sghash.models.shared.neighborhoods import k_nearest_others
from sghash.validation import Ids, Vectors


class Neighborhoods(NamedTuple):
    """Row `anchors[i]` is near each of the rows `partners[i]`: (n,) and (n, k)."""

    anchors: Ids
    partners: Ids

    def draw(self, n_pairs: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Different anchors and one partner of each, at most `n_pairs`."""
        n = min(n_pairs, len(self.anchors))
        chosen = rng.choice(len(self.anchors), size=n, replace=False)
        places = rng.integers(self.partners.shape[1], size=n)
        return self.anchors[chosen], self.partners[chosen, places]


def neighborhoods(vectors: Vectors, rows: Ids, k: int, *, metric: str) -> Neighborhoods:
    """The `k` nearest of each of `rows` among themselves; `vectors` (n, r) are theirs."""
    found = k_nearest_others(vectors, min(k, len(rows) - 1), metric=metric)
    return Neighborhoods(rows, rows[found])
