"""Bars on stderr: how far, how fast, how long still."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sghash.models.base import Progress


@contextmanager
def row_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar over rows; call it with (rows done, rows in all)."""
    from tqdm import tqdm

    with tqdm(desc=what, unit="row", unit_scale=True, file=sys.stderr, leave=False) as bar:

        def update(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield update


@contextmanager
def training_bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """A bar over training steps that shows the latest measurements; a model's `callback`."""
    from tqdm import tqdm

    with tqdm(desc=what, unit="step", file=sys.stderr, leave=False) as bar:

        def update(progress: Progress) -> None:
            bar.total = progress.total
            values = {name.replace("_", " "): f"{v:.4g}" for name, v in progress.values.items()}
            bar.set_postfix(values, refresh=False)
            bar.update(progress.step - bar.n)

        yield update
