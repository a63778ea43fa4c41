"""What stores of documents share: searches that go on until enough documents fit a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sghash.collection import Collection
from sghash.collection.answers import usual_rerank
from sghash.collection.reading import Reading, Snapshot
from sghash.errors import InvalidInput
from sghash.validation import Ids

_Document = TypeVar("_Document")


def are_true_distances(collection: Collection, options: Mapping[str, Any]) -> bool:
    """Whether a search with these options answers with distances of vectors, not of codes."""
    asked = options.get("rerank") or usual_rerank(collection.moment.state.manifest)
    return bool(asked == "vectors")


def nearest_that_fit(
    collection: Collection,
    vector: Sequence[float],
    k: int,
    read: Callable[[Reading, Ids], list[_Document]],
    fits: Callable[[_Document], bool],
    **options: Any,
) -> list[tuple[_Document, float]]:
    """The k nearest documents for which `fits`, with their distances.

    More is asked for until enough of it fits: exact, and cheap where most of it does. All is of
    one moment, whatever is deleted meanwhile.
    """
    moment = Snapshot(collection)
    n_rows, asked = len(moment), k
    queries = np.asarray([vector], dtype=np.float32)
    while n_rows:
        found = moment.search(queries, min(asked, n_rows), **options)
        real = found.ids[0] >= 0
        documents = read(moment, found.ids[0][real])
        distances = found.distances[0][real].astype(float)
        pairs = zip(documents, distances.tolist(), strict=True)
        fitting = [pair for pair in pairs if fits(pair[0])]
        if len(fitting) >= k or asked >= n_rows:
            return fitting[:k]
        asked *= 4
    return []


def delete_present(collection: Collection, ids: Any) -> None:
    """Delete those of some ids or keys that are there, and pass over what is not, or no longer."""
    left = ids
    while len(left):
        try:
            collection.delete(left)
            return
        except InvalidInput:
            present = [id_ for id_ in left if id_ in collection]
            if len(present) == len(left):
                raise
            left = present
