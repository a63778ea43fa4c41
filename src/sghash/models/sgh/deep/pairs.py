"""Pairs of vectors that shall have near codes: neighbours within a sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    from sghash.kernels import exact_neighbors

    k = min(k, len(rows) - 1)
    found = exact_neighbors(vectors, vectors, k + 1, metric=metric).ids
    own = found == np.arange(len(rows))[:, None]
    # By inner product, and among duplicates, a vector may not be its own nearest.
    own[~own.any(axis=1), -1] = True
    return Neighborhoods(rows, rows[found[~own].reshape(len(rows), k)])
