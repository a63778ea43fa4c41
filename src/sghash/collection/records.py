"""Everything that is stored under some ids."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.storage.state import State
from sghash.errors import InvalidInput
from sghash.index.stages import Candidates, gather
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, is_small, row_columns
from sghash.validation import Codes, Ids, Vectors, n_bytes_of


class Records(NamedTuple):
    """What `get` returns, one entry per id asked for; None stands for what is not kept."""

    ids: Ids
    keys: list[str | None]
    codes: Codes
    reconstructions: Vectors | None
    vectors: NDArray[Any] | None
    metadata: dict[str, list[Any]]


def read_records(state: State, ids: Ids, model: Any) -> Records:
    """Read the rows of ids that are there, in the order given."""
    owners, rows = state.find(ids)
    parts = [segment.rows for segment in state.segments()]
    found = Candidates(ids[None], ids[None], owners[None], rows[None])
    manifest, vectors = state.manifest, None
    # A collection without rows has no arrays yet, but their widths are known.
    no_codes = np.empty((0, n_bytes_of(manifest.n_bits)), dtype=np.uint8)
    codes = gather([part.codes for part in parts] or [no_codes], found)[0]
    if manifest.keep_vectors is not None:
        kind = KEPT_KINDS[manifest.keep_vectors]
        no_vectors = np.empty((0, row_columns(kind, manifest.width)), dtype=kind)
        kept = [part.vectors for part in parts if part.vectors is not None]
        vectors = gather(kept or [no_vectors], found)[0]
        if is_small(vectors):
            from sghash.kernels.vectors.stored import as_vectors

            vectors = as_vectors(vectors, manifest.width)
    keys: list[str | None] = []
    metadata: dict[str, list[Any]] = {name: [] for name in sorted(state.kinds)}
    for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
        part = parts[owner]
        keys.append((part.keys.at(row) or None) if part.keys is not None else None)
        for name, values in metadata.items():
            column = part.columns.get(name)
            values.append(None if column is None else column.at(row))
    return Records(ids, keys, codes, _reconstructions(model, codes), vectors, metadata)


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
