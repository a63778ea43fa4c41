"""Bars on stderr: how far, how fast, how long still."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sghash.progress import Bar

if TYPE_CHECKING:  # the models behind it load scikit-learn
    from sghash.models.base import Progress

# A terminal is redrawn; in a log every update is text that somebody scrolls past.
_SECONDS_ON_TERMINAL, _SECONDS_IN_LOG = 0.1, 10.0


def _bar(what: str, **options: Any) -> Any:
    from tqdm import tqdm

    seconds = _SECONDS_ON_TERMINAL if sys.stderr.isatty() else _SECONDS_IN_LOG
    return tqdm(desc=what, file=sys.stderr, leave=False, mininterval=seconds, **options)


@contextmanager
def row_bar(what: str, unit: str = "row") -> Iterator[Callable[[int, int], None]]:
    """A bar over rows; call it with (rows done, rows in all)."""
    with _late_bar(what, unit=unit, unit_scale=True) as update:
        yield update


@contextmanager
def byte_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar over bytes; call it with (bytes done, bytes in all)."""
    with _late_bar(what, unit="B", unit_scale=True, unit_divisor=1024) as update:
        yield update


@contextmanager
def _late_bar(what: str, **options: Any) -> Iterator[Callable[[int, int], None]]:
    """A bar that appears with the first step, unless that is the last one as well."""
    bars: list[Any] = []

    def update(done: int, total: int) -> None:
        if not bars:
            if done >= total:
                return
            bars.append(_bar(what, **options))
        bars[0].total = total
        bars[0].update(done - bars[0].n)

    try:
        yield update
    finally:
        for bar in bars:
            bar.close()


@contextmanager
def training_bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """A bar over training steps that shows the latest measurements; a model's `callback`."""
    with _bar(what, unit="step") as bar:

        def update(progress: Progress) -> None:
            bar.total = progress.total
            values = {name.replace("_", " "): f"{v:.4g}" for name, v in progress.values.items()}
            bar.set_postfix(values, refresh=False)
            bar.update(progress.step - bar.n)

        yield update


@contextmanager
def named_bar(what: str, unit: str) -> Iterator[Bar]:
    """A bar that says by name what is done now; closed whatever happens."""
    seconds = _SECONDS_ON_TERMINAL if sys.stderr.isatty() else _SECONDS_IN_LOG
    bar = Bar(what, unit, leave=False, mininterval=seconds, file=sys.stderr)
    try:
        yield bar
    finally:
        bar.close()
