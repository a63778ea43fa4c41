"""Numba, loaded late, cached on disk where that is possible, and never silently slow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

logger = logging.getLogger("sghash.kernels")

_Function = TypeVar("_Function", bound=Callable[..., Any])
_said: set[str] = set()


def compiled(function: _Function, **options: Any) -> _Function:
    """Compile `function` without the GIL; keep the result on disk if any cache folder is writable.

    `options` go to Numba (`error_model="numpy"` lets loops with divisions be vectorised).

    Numba notices a change of the file that holds the function, not of files it imports: after
    editing code emitted from another file, run `make clean`.
    """
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError as error:
        if "cache" not in str(error):
            raise
        say_once(
            "compiled kernels cannot be kept: no cache folder is writable, so each process "
            "compiles anew (set NUMBA_CACHE_DIR to a writable folder)",
            level=logging.WARNING,
        )
        return njit(nogil=True, **options)(function)


def say_once(message: str, *, level: int = logging.INFO) -> None:
    """Log `message` the first time only."""
    if message not in _said:
        _said.add(message)
        logger.log(level, message)


def announce(dispatcher: Any, what: str) -> None:
    """Log, before a kernel's first call in this process, that it may have to be compiled."""
    if not dispatcher.overloads:
        say_once(f"preparing the {what} kernel (compiled at first use, cached afterwards)")
