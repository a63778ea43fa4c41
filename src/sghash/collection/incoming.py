"""What comes into a collection, checked and made into rows before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.collection.storage.columns import Column, columns_of, filled_columns, fit_kinds
from sghash.collection.storage.rows import Rows, make_rows
from sghash.collection.storage.segments import Progress
from sghash.collection.storage.state import State, empty_index
from sghash.collection.storage.texts import texts_of
from sghash.collection.where.choice import are_keys, in_order
from sghash.errors import InvalidDtype, InvalidInput
from sghash.kernels.vectors.kinds import SMALL
from sghash.validation import Codes, Ids, Vectors, check_ids, check_vectors, next_ids

# Vectors of a source that are read, and made durable, at a time; in float32.
BLOCK_BYTES = 1 << 24

# Add vectors (m, d), ids or keys for them, and their columns; return the ids.
Append: TypeAlias = Callable[[Vectors, Any, Mapping[str, Column]], Ids]


def append_vectors(
    append: Append,
    state: State,
    vectors: Any,
    ids: Any,
    metadata: Mapping[str, Any] | None,
    *,
    replacing: bool,
    callback: Progress | None,
) -> Ids:
    """Call `append` for an array at once, for what lies in a file block by block.

    Nothing is appended before all ids and metadata have been checked.
    """
    if not _lies_in_a_file(vectors):
        array = check_vectors(vectors, width=state.manifest.width)
        if not len(array):
            new_ids, _ = _numbers_and_keys(state, ids, 0, replacing)
            columns_of(metadata, 0)
            return new_ids
        numbers = append(array, ids, filled_columns(metadata, len(array)))
        if callback is not None:
            callback(len(array), len(array))
        return numbers
    n, width = vectors.shape
    columns = filled_columns(metadata, n)
    fit_kinds(columns, state.kinds)
    numbers, keys = _numbers_and_keys(state, ids, n, replacing)
    given: Any = numbers if keys is None and ids is not None else keys
    found, done = [numbers[:0]], 0
    try:
        for first, block in blocks_of(vectors, max(1, BLOCK_BYTES // (4 * max(1, width)))):
            array = check_vectors(block, width=state.manifest.width)
            rows = np.arange(first, first + len(array))
            own = None if given is None else given[first : first + len(array)]
            some = {name: column.take(rows) for name, column in columns.items()}
            found.append(append(array, own, some))
            done = first + len(array)
            if callback is not None:
                callback(done, n)
    except BaseException as error:
        error.add_note(f"the first {done} of {n} vectors are in the collection, the others are not")
        raise
    return np.concatenate(found)


def _lies_in_a_file(vectors: Any) -> bool:
    if isinstance(vectors, np.ndarray):
        return isinstance(vectors, np.memmap) and vectors.ndim == 2
    return isinstance(vectors, VectorSource)


def new_rows(
    state: State,
    vectors: Vectors | None,
    codes: Codes,
    ids: Any,
    columns: Mapping[str, Column],
    *,
    replacing: bool,
) -> tuple[Ids, Rows]:
    """Ids in the order given, and the rows; ids that are in use are refused unless `replacing`."""
    fitted = fit_kinds(columns, state.kinds)
    numbers, names = _numbers_and_keys(state, ids, len(codes), replacing)
    keys = None if names is None else texts_of(names)
    kind = state.manifest.keep_vectors
    kept = None if vectors is None or kind is None else as_kept(vectors, kind)
    like = empty_index(state.manifest)
    return numbers, make_rows(like, numbers, codes, vectors=kept, keys=keys, columns=fitted)


def check_incoming(ids: Any, metadata: Mapping[str, Any] | None, n: int) -> None:
    """Refuse ids, keys or metadata that a new collection would refuse, before any work is done."""
    columns_of(metadata, n)
    if isinstance(ids, AbstractSet):
        raise InvalidDtype("ids are a set, which has no order: give one id per row in a list")
    ids = in_order(ids)
    if ids is not None and are_keys(ids):
        check_keys([ids] if isinstance(ids, str) else list(ids), n)
    elif ids is not None:
        _check_numbers(ids, n)


def _numbers_and_keys(
    state: State, ids: Any, n: int, replacing: bool
) -> tuple[Ids, Sequence[str] | None]:
    """Ids for n new rows, and their keys if they have any."""
    if isinstance(ids, AbstractSet):
        raise InvalidDtype("ids are a set, which has no order: give one id per row in a list")
    ids = in_order(ids)
    if ids is None or not are_keys(ids):
        return _numbers(state, ids, n, replacing), None
    names = [ids] if isinstance(ids, str) else list(ids)
    return _numbers_of_keys(state, names, n, replacing), names


def _numbers(state: State, ids: Any, n: int, replacing: bool) -> Ids:
    """Ids for n new rows: the next ones, or those given, checked."""
    if ids is None:
        return next_ids(state.next_id, n)
    numbers = _check_numbers(ids, n)
    used = numbers[state.find(numbers).segments >= 0]
    if not replacing and len(used):
        raise InvalidInput(
            f"id {used[0]} is in the collection already: use upsert, or choose another"
        )
    return numbers


def _check_numbers(ids: Any, n: int) -> Ids:
    numbers = check_ids(ids, n)
    rising = np.sort(numbers)
    twice = rising[1:][rising[1:] == rising[:-1]]
    if len(twice):
        raise InvalidInput(f"id {twice[0]} is given twice: every row needs an id of its own")
    return numbers


def check_keys(keys: list[str], n: int) -> None:
    """Refuse keys unless they are n different strings that are not empty."""
    if len(keys) != n:
        raise InvalidInput(f"got {len(keys)} ids for {n} rows: give one per row")
    if "" in keys:
        raise InvalidInput("a key must not be an empty string")
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise InvalidInput(f"key {key!r} is given twice: every row needs a key of its own")
        seen.add(key)


def _numbers_of_keys(state: State, keys: list[str], n: int, replacing: bool) -> Ids:
    """Ids for string keys: those they have, else the next ones."""
    check_keys(keys, n)
    numbers = state.find_keys(keys)
    known = numbers >= 0
    if not replacing and known.any():
        raise InvalidInput(
            f"key {keys[int(np.argmax(known))]!r} is in the collection already: use upsert"
        )
    numbers[~known] = next_ids(state.next_id, int(np.count_nonzero(~known)))
    return numbers


def as_kept(vectors: Vectors, kind: str) -> NDArray[Any]:
    """Vectors as a collection keeps them; refused where numbers are too large for that."""
    if kind in SMALL:
        from sghash.kernels.vectors.small import shrink

        return shrink(np.ascontiguousarray(vectors), kind)
    with np.errstate(over="ignore"):
        kept = vectors.astype(kind)
    if kind == "float16" and not np.isfinite(kept).all():
        raise InvalidInput(
            "the vectors hold values beyond float16 (65504): rescale them, or create the "
            'collection with keep_vectors="float32"'
        )
    return kept
