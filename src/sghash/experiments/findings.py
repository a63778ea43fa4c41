"""What a figure shows, in words: sentences made of the numbers that it is drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sghash.plots.winners import LEVEL


def listed(words: Sequence[object]) -> str:
    """a; a and b; a, b and c. What holds commas itself is parted by semicolons."""
    texts = [str(word) for word in words]
    if any(", " in text for text in texts):
        return "; ".join(texts)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def number(value: float) -> str:
    """Four digits, as people write them: 958,800, 0.6623."""
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{round(value, 3 - math.floor(math.log10(abs(value)))):,.0f}"


def span(numbers: Sequence[float], form: str = "+.3f") -> str:
    """The one number, or the smallest to the largest."""
    ends = [format(number, form) for number in (min(numbers), max(numbers))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def best_at(cells: Mapping[Any, Mapping[str, float]], unit: str, *, lowest: bool = False) -> str:
    """Who is highest where; `cells`: place -> method -> value."""
    word, sign = ("lowest", -1) if lowest else ("highest", 1)
    places: dict[str, list[object]] = {}
    for place, own in cells.items():
        best = best_of({name: sign * value for name, value in own.items()})
        places.setdefault(" and ".join(best), []).append(place)
    ranked = sorted(places, key=lambda name: -len(places[name]))
    return "; ".join(
        f"{name} {_is(name)} {word} at {listed(places[name])} {unit}" for name in ranked
    )


def beside(cells: Mapping[Any, Mapping[str, float]], reference: str) -> str:
    """How far methods are from the reference, over all places; `cells` hold the differences."""
    names = dict.fromkeys(name for own in cells.values() for name in own)
    gaps = {name: [own[name] for own in cells.values() if name in own] for name in names}
    above = [name for name in gaps if min(gaps[name]) > 0]
    below = [name for name in gaps if max(gaps[name]) < 0]
    mixed = [name for name in gaps if name not in above and name not in below]
    told = [f"{name} ({span(gaps[name])})" for name in above]
    said = [
        f"{word} {listed(found)}"
        for word, found in (
            (f"above {reference} everywhere:", told),
            (f"above {reference} in some places only:", mixed),
            (f"below {reference} everywhere:", below),
        )
        if found
    ]
    return "; ".join(said)


def ends(last: Mapping[str, float]) -> str:
    """Where falling curves end, the lowest first."""
    ranked = sorted(last, key=lambda name: last[name])
    told = listed([f"{name} {number(last[name])}" for name in ranked])
    return f"At their ends, the lowest first: {told}"


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ~ x**p between the first point and the last."""
    return math.log(y[-1] / y[0]) / math.log(x[-1] / x[0])


def winners_told(cells: Mapping[Any, Mapping[str, float]], unit: str) -> str:
    """Who is best within which budget, and with how much; `cells`: budget -> method -> value."""
    won: dict[str, list[tuple[Any, float]]] = {}
    for size, own in cells.items():
        won.setdefault(" and ".join(best_of(own)), []).append((size, max(own.values())))
    return "; ".join(
        f"{name} {_is(name)} best within {listed([size for size, _ in found])} {unit} "
        f"({span([value for _, value in found], '.3f')})"
        for name, found in won.items()
    )


def best_of(own: Mapping[str, float]) -> list[str]:
    """The highest, with all that are level with it in three digits."""
    return [name for name in own if own[name] >= max(own.values()) - LEVEL]


def _is(names: str) -> str:
    return "are" if " and " in names else "is"
