"""Ways to break a collection on purpose: a run must notice each of them.

Only public functions are replaced, so that the same faults can be put into any version.
"""

from __future__ import annotations

import fcntl
import itertools
import threading
from types import SimpleNamespace

import numpy as np

from sghash import Collection, SghashError, StorageError
from sghash.neighbors import Neighbors


def _now_and_then(every):
    """True once in a while, as faults are."""
    calls = itertools.count(1)
    return lambda: next(calls) % every == 0


def lost_row():
    """One row of an add is acknowledged and not stored."""
    real, strike = Collection.add, _now_and_then(3)

    def add(self, vectors, ids=None, metadata=None, **options):
        if not strike() or ids is None or isinstance(ids[0], str) or len(ids) < 2:
            return real(self, vectors, ids, metadata, **options)
        some = metadata and {name: values[:-1] for name, values in metadata.items()}
        real(self, vectors[:-1], ids[:-1], some, **options)
        return np.asarray(ids)

    Collection.add = add


def doubled_row():
    """A row that is replaced is kept beside the new one, under another id."""
    real, strike = Collection.upsert, _now_and_then(3)

    def upsert(self, vectors, ids, metadata=None, **options):
        found = real(self, vectors, ids, metadata, **options)
        if strike():
            self.add(vectors[:1])
        return found

    Collection.upsert = upsert


def forgotten_delete():
    """A delete is acknowledged and not done."""
    real, strike = Collection.delete, _now_and_then(3)
    Collection.delete = lambda self, ids: None if strike() else real(self, ids)


def half_change():
    """Half of the rows are stored, and the error says that the change failed."""
    real = Collection.upsert

    def upsert(self, vectors, ids, metadata=None, **options):
        try:
            return real(self, vectors, ids, metadata, **options)
        except StorageError:
            n = len(ids) // 2
            some = metadata and {name: values[:n] for name, values in metadata.items()}
            if n:
                real(self, vectors[:n], ids[:n], some)
            raise

    Collection.upsert = upsert


def torn_answer():
    """A search returns the neighbours of one query for another."""
    real, strike = Collection.search, _now_and_then(4)

    def search(self, *arguments, **options):
        found = real(self, *arguments, **options)
        return Neighbors(found.distances, found.ids[::-1]) if strike() else found

    Collection.search = search


def raw_error():
    """An error of Python comes through."""
    real, strike = Collection.delete, _now_and_then(3)

    def delete(self, ids):
        if strike():
            raise IndexError("list index out of range")
        return real(self, ids)

    Collection.delete = delete


def no_lock():
    """Every process gets the right to write."""
    fcntl.flock = fcntl.lockf = lambda *arguments: None


def blind_verify():
    """Nothing is read, everything is said to be in order."""
    real = Collection.verify

    def verify(self, **options):
        try:
            return real(self, **options)
        except SghashError:
            return SimpleNamespace(n_rows=len(self))

    Collection.verify = verify


def used_ids():
    """Automatic ids begin again at the smallest that is free."""
    real, strike = Collection.add, _now_and_then(4)

    def add(self, vectors, ids=None, metadata=None, **options):
        if ids is None and strike():
            used = set(self.ids.tolist())
            free = (i for i in itertools.count() if i not in used)
            ids = list(itertools.islice(free, len(vectors)))
        return real(self, vectors, ids, metadata, **options)

    Collection.add = add


def stale_reader():
    """A refresh does nothing."""
    real = Collection.refresh
    Collection.refresh = lambda self: len(self) if len(self) > 8 else real(self)


def never_returns():
    """A delete waits for ever."""
    real, strike = Collection.delete, _now_and_then(5)
    Collection.delete = lambda self, ids: threading.Event().wait() if strike() else real(self, ids)


WAYS = {
    way.__name__.replace("_", "-"): way
    for way in (lost_row, doubled_row, forgotten_delete, half_change, torn_answer, raw_error,
                no_lock, blind_verify, used_ids, stale_reader, never_returns)
}  # fmt: skip
