"""Pairs of vectors: neighbours within a sample, and what the caller knows of pairs and labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
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


class KnownPairs(NamedTuple):
    """Rows `first` and `second` (m,) each, and whether they are `similar` (m,) bool."""

    first: Ids
    second: Ids
    similar: NDArray[np.bool_]


def neighborhoods(vectors: Vectors, rows: Ids, k: int, *, metric: str) -> Neighborhoods:
    """The `k` nearest of each of `rows` among themselves; `vectors` (n, r) are theirs."""
    from sghash.kernels import exact_neighbors

    k = min(k, len(rows) - 1)
    found = exact_neighbors(vectors, vectors, k + 1, metric=metric).ids
    own = found == np.arange(len(rows))[:, None]
    # By inner product, and among duplicates, a vector may not be its own nearest.
    own[~own.any(axis=1), -1] = True
    return Neighborhoods(rows, rows[found[~own].reshape(len(rows), k)])


def check_pairs(pairs: Any, n_rows: int) -> KnownPairs:
    """(i, j, similar), each (m,): rows, and whether they belong together."""
    sentence = "pairs must be (i, j, similar), three arrays of the same length: rows, rows, bools"
    try:
        first, second, similar = (np.asarray(part) for part in pairs)
    except (TypeError, ValueError) as error:
        raise InvalidInput(sentence) from error
    whole = first.dtype.kind in "iu" and second.dtype.kind in "iu"
    if not whole or not first.shape == second.shape == similar.shape or first.ndim != 1:
        raise InvalidInput(sentence)
    if not len(first) or not np.isin(similar, (0, 1)).all():
        raise InvalidInput(sentence)
    low, high = min(first.min(), second.min()), max(first.max(), second.max())
    if low < 0 or high >= n_rows:
        raise InvalidInput(
            f"pairs name rows between {low} and {high}, the vectors have rows 0 to {n_rows - 1}"
        )
    return KnownPairs(first.astype(np.int64), second.astype(np.int64), similar.astype(bool))


def check_labels(y: ArrayLike | None, n_rows: int) -> Ids:
    """Labels (n,) as whole numbers, -1 for unlabelled rows; two rows at least share one."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iub":
        raise InvalidInput(
            f"y must be whole numbers, one per row ({n_rows}), with -1 for unlabelled rows"
        )
    known, counts = np.unique(labels[labels != -1], return_counts=True)
    if not len(known) or counts.max() < 2:
        raise InvalidInput("y labels no two rows alike: label more rows")
    return labels.astype(np.int64)
