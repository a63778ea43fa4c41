"""Keys must be unique among what is put together: shards, or the parts of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sghash.collection.storage.segments import Segment


class SharedKey(NamedTuple):
    """A key that two living rows have, and the groups of segments that these are in."""

    key: str
    first: int
    second: int


def shared_key(groups: Sequence[Sequence[Segment]]) -> SharedKey | None:
    """A key that is there twice; None where there is none.

    Hashes are compared first; only keys whose hashes meet are read.
    """
    placed = [
        (group, segment, table, keys)
        for group, segments in enumerate(groups)
        for segment in segments
        if (table := segment.rows.keys_by_hash) and (keys := segment.rows.keys)
    ]
    if not placed:
        return None
    hashes = np.sort(np.concatenate([table.hashes for _, _, table, _ in placed]))
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    if not len(twice):
        return None
    owners: dict[str, int] = {}
    for group, segment, table, keys in placed:
        alike = table.rows[np.isin(table.hashes, twice)]
        alive = segment.find(segment.rows.ids_at(alike)) >= 0
        for key in map(keys.at, alike[alive].tolist()):
            if key in owners:
                return SharedKey(key, owners[key], group)
            owners[key] = group
    return None
