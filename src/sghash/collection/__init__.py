"""Codes with their model, ids, keys and metadata in a folder that survives crashes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sghash.collection.collection import Collection
from sghash.collection.records import Records
from sghash.collection.storage.verification import Summary

if TYPE_CHECKING:
    from sghash.collection.jobs.staging import encode_part as encode_part
    from sghash.collection.jobs.tasks import Staged as Staged, Task as Task
    from sghash.collection.shards.sharded import ShardedCollection as ShardedCollection

# Names that few processes need -> the module that has them.
_LATE = {
    "ShardedCollection": "sghash.collection.shards.sharded",
    "Staged": "sghash.collection.jobs.tasks",
    "Task": "sghash.collection.jobs.tasks",
    "encode_part": "sghash.collection.jobs.staging",
}

__all__ = [
    "Collection", "Records", "ShardedCollection", "Staged", "Summary", "Task", "encode_part"
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
