"""Codes with their model, ids, keys and metadata in a folder that survives crashes."""

from __future__ import annotations

from sghash.collection.collection import Collection
from sghash.collection.records import Records
from sghash.collection.storage.verification import Summary

__all__ = ["Collection", "Records", "Summary"]
