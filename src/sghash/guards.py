"""Locks that do not outlive a fork: in the child nobody would free what another thread holds."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress


class Guard:
    """A lock, to be held by `with`; in the child of a fork it is free again.

    With `reentrant`, the thread that holds it may take it again.
    """

    def __init__(self, *, reentrant: bool = False) -> None:
        self._make = threading.RLock if reentrant else threading.Lock
        self._lock = self._make()
        _guards.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        # The child of a fork that happened inside has nothing to release.
        with suppress(RuntimeError):
            self._lock.release()

    def renew(self) -> None:
        """Be free, whoever held it."""
        self._lock = self._make()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _renew_all() -> None:
    for guard in list(_guards):
        guard.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
