"""`ShardedCollection`: collections of one model in several folders, searched as one."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from sghash.collection.moment import ModelHolder, Moment
from sghash.collection.reading import Reading
from sghash.collection.recent import Recent
from sghash.collection.shards.dividing import divide
from sghash.collection.shards.joining import joined_moment
from sghash.collection.storage import verification
from sghash.collection.storage.folders import named_missing, resolved, why_missing
from sghash.collection.storage.loading import load_state
from sghash.errors import InvalidInput, MissingData
from sghash.guards import Guard
from sghash.progress import Callback, counting

_log = logging.getLogger("sghash.collection")


class ShardedCollection(Reading):
    """Collections of one model in several folders, which answer as one would with all their rows.

    It reads; rows are added to one of its folders, opened as a `Collection`, with ids that no
    other shard has (`next_id` and above are free).
    """

    def __init__(
        self, folders: Sequence[Path], missing: Sequence[Path], *, in_memory: bool
    ) -> None:
        self._folders, self._in_memory = tuple(folders), in_memory
        #: Folders of shards that are not there.
        self.missing = tuple(missing)
        self._recent = Recent()
        self._guard = Guard()
        self._parts = [
            Moment(state, ModelHolder(folder, state.manifest))
            for folder in self._folders
            for state in [load_state(folder, in_memory=in_memory)]
        ]
        self._moment = joined_moment(self._parts, self._names)

    @classmethod
    def open(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        allow_partial: bool = False,
        in_memory: bool = False,
    ) -> Self:
        """Open the collections in several folders, local or mounted, for reading.

        One that is not there is refused by name; with `allow_partial` the others answer, a warning
        says so, and `missing` names it. `in_memory` as in `Collection.open`.
        """
        if isinstance(paths, (str, os.PathLike)):
            raise InvalidInput("paths must be a list of folders: for one folder use Collection")
        folders = [resolved(path) for path in paths]
        if not folders or len(set(folders)) != len(folders):
            raise InvalidInput("give at least one folder of a shard, and each only once")
        reasons = {folder: why_missing(folder) for folder in folders}
        missing = [folder for folder in folders if reasons[folder] is not None]
        named = named_missing({str(folder): reasons[folder] for folder in missing})
        if missing and (not allow_partial or len(missing) == len(folders)):
            raise MissingData(
                f"{len(missing)} of {len(folders)} shards are not there: {named}; mount them, or "
                "answer without them by allow_partial=True"
            )
        if missing:
            _log.warning(
                "%d of %d shards are not there, answers come from the others: %s",
                len(missing), len(folders), named,
            )  # fmt: skip
        present = [folder for folder in folders if folder not in missing]
        return cls(present, missing, in_memory=in_memory)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of the shards that answer."""
        return self._folders

    @property
    def next_id(self) -> int:
        """The smallest number above all ids that any shard has given."""
        return self._moment.state.next_id

    def __repr__(self) -> str:
        return f"ShardedCollection of {len(self._folders)} folders with {len(self)} codes"

    def refresh(self) -> int:
        """See what writers of the shards have done since; returns the number of rows."""
        with self._guard.lock:
            parts = [
                part.refreshed(folder, in_memory=self._in_memory)
                for part, folder in zip(self._parts, self._folders, strict=True)
            ]
            # Joining looks at all ids and keys.
            if not all(map(_are_same, self._parts, parts)):
                self._moment, self._parts = joined_moment(parts, self._names), parts
            return len(self)

    def verify(self, *, callback: Callback | None = None) -> verification.Summary:
        """Read every byte of every shard; `callback` receives (shards done, shards in all)."""
        told, found = counting(callback, "verifying", "shard"), []
        for done, folder in enumerate(self._folders, start=1):
            found.append(verification.verify(folder))
            if told is not None:
                told(done, len(self._folders))
        return verification.Summary(*(sum(counts) for counts in zip(*found, strict=True)))

    def stats(self) -> dict[str, Any]:
        """Counts and sizes of all shards together, and how many they are."""
        return {**super().stats(), "n_shards": len(self._folders)}

    def reshard(
        self, paths: Sequence[str | os.PathLike[str]], *, callback: Callback | None = None
    ) -> ShardedCollection:
        """Write all rows into new folders, about as many into each, by rising ids.

        One folder merges all shards, more split them; ids, keys, metadata and kept vectors stay.
        All folders appear at the end; what fails or interrupts leaves none of them. `callback`
        receives (folders done, folders in all).
        """
        if self.missing:
            named = ", ".join(map(str, self.missing))
            raise MissingData(f"rows of shards that are not there would be lost: {named}")
        if isinstance(paths, (str, os.PathLike)):
            raise InvalidInput("paths must be a list of folders, also for one")
        targets = [resolved(path) for path in paths]
        told = counting(callback, "writing", "shard")
        divide(self._moment, self._folders, targets, told)
        return type(self).open(targets)

    @property
    def _names(self) -> list[str]:
        return [str(folder) for folder in self._folders]


def _are_same(one: Moment, other: Moment) -> bool:
    """Whether nothing was done between two moments of a shard; records that may vanish count."""
    old, new = one.state, other.state
    if old.settled is not None or new.settled is not None:
        return False
    same = (old.log_end, old.log_place) == (new.log_end, new.log_place)
    return same and old.manifest == new.manifest
