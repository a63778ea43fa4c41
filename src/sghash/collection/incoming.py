"""What comes into a collection, checked and made into rows before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection.choice import are_keys
from sghash.collection.columns import columns_of, fit_kinds
from sghash.collection.rows import Rows, make_rows
from sghash.collection.state import State
from sghash.collection.texts import texts_of
from sghash.errors import InvalidInput
from sghash.validation import Codes, Ids, Vectors, check_ids


def new_rows(
    state: State,
    vectors: Vectors | None,
    codes: Codes,
    ids: Any,
    metadata: Mapping[str, Any] | None,
    *,
    replacing: bool,
) -> tuple[Ids, Rows]:
    """Ids in the order given, and the rows; ids that are in use are refused unless `replacing`."""
    n = len(codes)
    columns = fit_kinds(columns_of(metadata, n), state.kinds)
    keys = None
    if ids is not None and are_keys(ids):
        names = [ids] if isinstance(ids, str) else list(ids)
        numbers = _numbers_of_keys(state, names, n, replacing)
        keys = texts_of(names)
    else:
        numbers = _numbers(state, ids, n, replacing)
    kept = None if vectors is None else _kept(vectors, state.manifest.keep_vectors)
    return numbers, make_rows(numbers, codes, vectors=kept, keys=keys, columns=columns)


def _numbers(state: State, ids: Any, n: int, replacing: bool) -> Ids:
    """Ids for n new rows: the next ones, or those given, checked."""
    if ids is None:
        return np.arange(state.next_id, state.next_id + n, dtype=np.int64)
    numbers = check_ids(ids, n)
    rising = np.sort(numbers)
    twice = rising[1:][rising[1:] == rising[:-1]]
    if len(twice):
        raise InvalidInput(f"id {twice[0]} is given twice: every row needs an id of its own")
    used = numbers[state.find(numbers).segments >= 0]
    if not replacing and len(used):
        raise InvalidInput(
            f"id {used[0]} is in the collection already: use upsert, or choose another"
        )
    return numbers


def _numbers_of_keys(state: State, keys: list[str], n: int, replacing: bool) -> Ids:
    """Ids for string keys: those they have, else the next ones."""
    if len(keys) != n:
        raise InvalidInput(f"got {len(keys)} ids for {n} rows: give one per row")
    if "" in keys:
        raise InvalidInput("a key must not be an empty string")
    if len(set(keys)) != n:
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(f"key {twice!r} is given twice: every row needs a key of its own")
    numbers = state.find_keys(keys)
    known = numbers >= 0
    if not replacing and known.any():
        raise InvalidInput(
            f"key {keys[int(np.argmax(known))]!r} is in the collection already: use upsert"
        )
    numbers[~known] = np.arange(state.next_id, state.next_id + np.count_nonzero(~known))
    return numbers


def _kept(vectors: Vectors, kind: str | None) -> NDArray[Any] | None:
    if kind is None:
        return None
    with np.errstate(over="ignore"):
        kept = vectors.astype(kind)
    if kind == "float16" and not np.isfinite(kept).all():
        raise InvalidInput(
            "the vectors hold values beyond float16 (65504): rescale them, or create the "
            'collection with keep_vectors="float32"'
        )
    return kept
