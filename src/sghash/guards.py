"""Locks that do not outlive a fork: in the child nobody would free what another thread holds."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any


class Guard:
    """A lock, to be held by `with guard.lock`; in the child of a fork it is free again.

    With `reentrant`, the thread that holds it may take it again. Python takes and frees the `lock`
    itself in one step each: methods of ours around it could be left by Ctrl-C after it was taken,
    and before it was freed.
    """

    def __init__(self, *, reentrant: bool = False) -> None:
        self._make: Callable[[], Any] = threading.RLock if reentrant else threading.Lock
        self.lock = self._make()
        _guards.add(self)

    def renew(self) -> None:
        """Be free, whoever held it."""
        self.lock = self._make()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _renew_all() -> None:
    for guard in list(_guards):
        guard.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
