"""`where`: which rows a search may return, given as a mask, as ids or keys, or as a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.segments import View
from sghash.collection.storage.state import State
from sghash.collection.where.grammar import Node
from sghash.collection.where.predicate import mask_of, parse
from sghash.errors import InvalidDtype, InvalidInput
from sghash.validation import Ids, check_ids

_Mask = NDArray[np.bool_]


def allowed_rows(where: Any, state: State, views: Sequence[View]) -> list[_Mask | None]:
    """For each view, which of its rows may be returned; None allows all."""
    if where is None:
        return [view.alive for view in views]
    if isinstance(where, str):
        tree = parse(where, state.kinds)
        masks = [mask_of(tree, view.rows.columns, len(view.rows)) for view in views]
    elif isinstance(where, Mapping):
        column = next(iter(where), "year")
        raise InvalidInput(
            f"where is a condition in words, such as where=\"{column} == 'x'\", a mask, or ids"
        )
    elif _is_mask(where):
        masks = _split_mask(np.asarray(where), views)
    else:
        masks = _masks_of_ids(ids_of(where, state), views)
    return [
        mask if view.alive is None else mask & view.alive
        for mask, view in zip(masks, views, strict=True)
    ]


def ids_where(condition: Node, state: State) -> Ids:
    """Ids of the rows that satisfy a condition, rising."""
    parts = []
    for rows, alive in state.views:
        mask = mask_of(condition, rows.columns, len(rows))
        parts.append(rows.ids_at(slice(None))[mask if alive is None else mask & alive])
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))


def ids_of(given: Any, state: State) -> Ids:
    """Ids as int64, from ids or from string keys; one that is not there is refused."""
    given = in_order(given)
    if are_keys(given):
        keys = [given] if isinstance(given, str) else list(given)
        ids = state.find_keys(keys)
        missing = [key for key, id_ in zip(keys, ids.tolist(), strict=True) if id_ < 0]
        if missing:
            raise InvalidInput(
                f"key {missing[0]!r} is not in the collection: ask first with `key in collection`"
            )
        return ids
    ids = check_ids(given)
    unknown = ids[state.find(ids).segments < 0]
    if len(unknown):
        raise InvalidInput(
            f"id {unknown[0]} is not in the collection: ask first with `id in collection`"
        )
    return ids


def in_order(given: Any) -> Any:
    """Ids or keys as they came, but something that can be gone through once as a list."""
    if isinstance(given, np.ndarray) and given.ndim == 0:
        return given[None]
    if hasattr(given, "__iter__") and not hasattr(given, "__len__"):
        return list(given)
    return given


def are_keys(given: Any) -> TypeGuard[Sequence[str]]:
    """Whether ids are given as strings; a mixture is refused."""
    if isinstance(given, str):
        return True
    if isinstance(given, np.ndarray) and given.dtype.kind not in "OUT":
        return False
    kinds = {isinstance(item, str) for item in given} if hasattr(given, "__iter__") else {False}
    if len(kinds) > 1:
        raise InvalidDtype("give either whole numbers or strings as ids, not both at once")
    return kinds == {True}


def _is_mask(where: Any) -> bool:
    if isinstance(where, (list, tuple)):
        return len(where) > 0 and all(isinstance(truth, (bool, np.bool_)) for truth in where)
    return hasattr(where, "__array__") and np.asarray(where).dtype == np.bool_


def live_ids(views: Sequence[View]) -> Ids:
    """All ids, rising."""
    parts = []
    for rows, alive in views:
        ids = rows.ids_at(slice(None))
        parts.append(ids if alive is None else ids[alive])
    ids = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return np.sort(ids) if np.any(ids[1:] < ids[:-1]) else ids


def _split_mask(mask: _Mask, views: Sequence[View]) -> list[_Mask]:
    ids = live_ids(views)
    if mask.shape != ids.shape:
        raise InvalidInput(
            f"the mask has shape {mask.shape}, the collection has {len(ids)} rows: "
            "give one truth value for each of its `ids`"
        )
    return _masks_of_ids(ids[mask], views)


def _masks_of_ids(ids: Ids, views: Sequence[View]) -> list[_Mask]:
    masks = []
    for rows, _ in views:
        mask = np.zeros(len(rows), dtype=np.bool_)
        found = rows.find(ids)
        mask[found[found >= 0]] = True
        masks.append(mask)
    return masks
