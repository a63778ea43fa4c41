"""`callback="bar"`: a progress bar in a terminal or a notebook, for everything that reports.

Whatever takes a `callback` takes the word "bar" in its place. The bar appears with the first
report, and goes when all is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from sghash.errors import InvalidDtype

BAR = "bar"
#: Receives (done, in all).
Counting: TypeAlias = Callable[[int, int], None]
#: What a caller may give: such a function, or the word "bar".
Callback: TypeAlias = Counting | Literal["bar"]


class Bar:
    """A bar that is called with (done, in all), and with measurements to show beside it."""

    def __init__(self, what: str, unit: str, **options: Any) -> None:
        self._what, self._unit, self._options = what, unit, options
        self._shown: Any = None

    def __call__(self, done: int, total: int, values: Mapping[str, float] | None = None) -> None:
        """Move on; the bar closes itself when `done` reaches `total`."""
        if self._shown is None:
            from tqdm.auto import tqdm

            self._shown = tqdm(desc=self._what, unit=self._unit, total=total, **self._options)
        if values:
            shown = {name.replace("_", " "): f"{value:.4g}" for name, value in values.items()}
            self._shown.set_postfix(shown, refresh=False)
        self._shown.total = total
        self._shown.update(done - self._shown.n)
        if done >= total:
            self.close()

    def describe(self, what: str) -> None:
        """Say what is done now, before the bar."""
        self._what = what
        if self._shown is not None:
            self._shown.set_description(what)

    def close(self) -> None:
        """Leave the bar as it is; the next report begins another."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None


def counting(callback: Any, what: str, unit: str = "row") -> Counting | None:
    """What to tell (done, in all): the caller's own function, a bar for "bar", or nobody."""
    if isinstance(callback, str) and callback == BAR:
        return Bar(what, unit)
    if callback is not None and not callable(callback):
        raise InvalidDtype(
            f'callback must be a function of (done, in all), "bar" or None, got {callback!r}'
        )
    return callback  # type: ignore[no-any-return]
