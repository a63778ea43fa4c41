"""What rows look like: which columns are pictures, texts and labels, told or guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# Rows that a guess looks at, and how many values a column to colour by may have.
_LOOKED_AT, MOST_CLASSES = 200, 24
_ORDER = (str, int, bool)


class Looks(NamedTuple):
    """Columns by role, None where there is none; `picture` is the shape of a vector's picture.

    `has_files` says whether files that the image column names can be shown.
    """

    image: str | None
    text: str | None
    label: str | None
    picture: tuple[int, ...] | None
    has_files: bool = True


class Colouring(NamedTuple):
    """A column to colour the map by: places among `names` (-1: none), or numbers without names."""

    column: str
    names: list[str] | None
    values: NDArray[Any]


def looks_of(roles: Mapping[str, str], metadata: Mapping[str, Sequence[Any]]) -> Looks:
    """What was told of columns that are there stands; the rest is guessed from the first values."""
    size = roles.get("picture")
    roles = {role: column for role, column in roles.items() if column in metadata}
    heads = {name: _first(values) for name, values in metadata.items()}
    image = roles.get("image") or next((n for n, h in heads.items() if _are_images(h)), None)
    text = roles.get("text") or _wordiest({n: h for n, h in heads.items() if n != image})
    label = roles.get("label")
    if label is None:
        labels = [n for n in metadata if n not in (image, text) and _is_label(metadata[n])]
        # A name says more than a number, and a number more than yes or no.
        label = min(labels, key=lambda n: _ORDER.index(type(heads[n][0])), default=None)
    shape = None if size is None else tuple(map(int, size.split("x")))
    return Looks(image, text, label, shape)


def colourings(metadata: Mapping[str, Sequence[Any]], looks: Looks) -> list[Colouring]:
    """Every column that a map can be coloured by, the label first."""
    names = sorted((n for n in metadata if n != looks.image), key=lambda n: (n != looks.label, n))
    found = []
    for name in names:
        values = metadata[name]
        if name == looks.label or _is_label(values):
            found.append(_classes(name, values))
        elif all(v is None or type(v) in (int, float) for v in values):
            numbers = np.array([math.nan if v is None else float(v) for v in values], np.float64)
            with np.errstate(over="ignore"):  # what float32 cannot hold is drawn as a gap
                found.append(Colouring(name, None, numbers.astype(np.float32)))
    return found[:8]


def _classes(name: str, values: Sequence[Any]) -> Colouring:
    """The most frequent values get a place each, in their own order; others are "other"."""
    counts: dict[Any, int] = {}
    for value in values:
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    kept = sorted(counts, key=lambda v: (-counts[v], str(v)))[:MOST_CLASSES]
    kept.sort(key=lambda v: (isinstance(v, str), v))
    places = {value: place for place, value in enumerate(kept)}
    names = [str(value) for value in kept]
    if len(counts) > len(kept):
        names.append("other")
    array = np.array(
        [-1 if v is None else places.get(v, len(kept)) for v in values], dtype=np.int16
    )
    return Colouring(name, names, array)


def _first(values: Sequence[Any]) -> list[Any]:
    return [value for value in values[: 5 * _LOOKED_AT] if value is not None][:_LOOKED_AT]


def _are_images(values: list[Any]) -> bool:
    return bool(values) and all(
        isinstance(v, str) and (v.startswith("data:image/") or v.lower().endswith(_ENDINGS))
        for v in values
    )


def _wordiest(heads: Mapping[str, list[Any]]) -> str | None:
    """The column of text that says most; words that repeat are labels."""
    best, longest = None, 0.0
    for name, values in heads.items():
        texts = [v for v in values if isinstance(v, str)]
        if not texts or len(set(texts)) < 0.6 * len(texts):
            continue
        length = sum(map(len, texts)) / len(texts)
        if length > longest:
            best, longest = name, length
    return best


def _is_label(values: Sequence[Any]) -> bool:
    head = _first(values)
    if not head or any(isinstance(v, float) for v in values):
        return False
    seen = {v for v in values if v is not None}
    return 2 <= len(seen) <= MOST_CLASSES
