"""Everything that is stored under some ids."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.columns import Column
from sghash.collection.storage.state import State
from sghash.collection.storage.texts import Texts
from sghash.errors import InvalidInput
from sghash.index.stages import Candidates, gather
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, is_small, row_columns
from sghash.validation import Codes, Ids, Vectors, n_bytes_of

#: What a record has beside its id and key.
PARTS = ("codes", "reconstructions", "vectors", "metadata")
# A number or a gap with what stands around it.
_VALUE_BYTES = 16


class Records(NamedTuple):
    """What `get` returns, one entry per id asked for; None stands for what is not kept."""

    ids: Ids
    keys: list[str | None]
    codes: Codes
    reconstructions: Vectors | None
    vectors: NDArray[Any] | None
    metadata: dict[str, list[Any]]


def read_records(state: State, ids: Ids, model: Any, wanted: Collection[str] = PARTS) -> Records:
    """Read the rows of ids that are there, in the order given.

    Of what is not `wanted` nothing is read, but for codes, and nothing is in the records.
    """
    owners, rows = state.find(ids)
    parts = [segment.rows for segment in state.segments()]
    found = Candidates(ids[None], ids[None], owners[None], rows[None])
    manifest, vectors = state.manifest, None
    # A collection without rows has no arrays yet, but their widths are known.
    no_codes = np.empty((0, n_bytes_of(manifest.n_bits)), dtype=np.uint8)
    codes = gather([part.codes for part in parts] or [no_codes], found)[0]
    if manifest.keep_vectors is not None and "vectors" in wanted:
        kind = KEPT_KINDS[manifest.keep_vectors]
        no_vectors = np.empty((0, row_columns(kind, manifest.width)), dtype=kind)
        kept = [part.vectors for part in parts if part.vectors is not None]
        vectors = gather(kept or [no_vectors], found)[0]
        if is_small(vectors):
            from sghash.kernels.vectors.stored import as_vectors

            vectors = as_vectors(vectors, manifest.width)
    keys: list[str | None] = []
    for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
        texts = parts[owner].keys
        keys.append((texts.at(row) or None) if texts is not None else None)
    metadata = metadata_of(state, ids) if "metadata" in wanted else {}
    decoded = _reconstructions(model, codes) if "reconstructions" in wanted else None
    return Records(ids, keys, codes, decoded, vectors, metadata)


def metadata_of(state: State, ids: Ids) -> dict[str, list[Any]]:
    """Metadata of ids, column by column; None where a row has none, or is not there."""
    parts = [segment.rows for segment in state.segments()]
    places = list(zip(*(places.tolist() for places in state.find(ids)), strict=True))
    metadata: dict[str, list[Any]] = {}
    for name in sorted(state.kinds):
        columns = [part.columns.get(name) for part in parts]
        metadata[name] = [_value(columns, owner, row) for owner, row in places]
    return metadata


def text_bytes(state: State, ids: Ids, *, with_metadata: bool) -> NDArray[np.int64]:
    """About how many bytes the key, and the metadata, of each id takes; no text is read for it."""
    owners, rows = state.find(ids)
    n_values = len(state.kinds) if with_metadata else 0
    sizes = np.full(len(ids), _VALUE_BYTES * n_values, dtype=np.int64)
    for number, segment in enumerate(state.segments()):
        here = np.flatnonzero(owners == number)
        columns = segment.rows.columns.values() if with_metadata else ()
        for texts in (segment.rows.keys, *(column.values for column in columns)):
            if isinstance(texts, Texts) and len(here):
                sizes[here] += texts.lengths(rows[here])
    return sizes


def _value(columns: list[Column | None], owner: int, row: int) -> Any:
    column = columns[owner] if owner >= 0 else None
    return None if column is None else column.at(row)


def keys_of(state: State, ids: Ids) -> NDArray[np.object_]:
    """Keys of an array of ids; None where there is none, or no such row."""
    known, places = np.unique(ids, return_inverse=True)
    owners, rows = state.find(known)
    parts = [segment.rows for segment in state.segments()]
    keys = np.full(len(known), None, dtype=object)
    for place, (owner, row) in enumerate(zip(owners.tolist(), rows.tolist(), strict=True)):
        texts = parts[owner].keys if owner >= 0 else None
        keys[place] = None if texts is None else texts.at(row) or None
    return keys[places].reshape(ids.shape)


def _reconstructions(model: Any, codes: Codes) -> Vectors | None:
    if model.capabilities.codes == "bytes":
        return np.asarray(model.decode(codes), dtype=np.float32)
    try:
        decoded: Vectors = model.decode(codes)
    except InvalidInput:
        return None
    return decoded
