"""Rows as the page shows them: a title, a text, a picture, a label, and all other columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection.records import Records
from sghash.serve.explorer.looks import Looks
from sghash.serve.explorer.packing import plain
from sghash.validation import Ids, Vectors

# Texts are cut there; nobody reads more of them in a list.
MOST_LETTERS = 600


def shown_rows(records: Records, looks: Looks) -> list[dict[str, Any]]:
    """One object per row; ids are texts, for a browser rounds numbers beyond 2^53."""
    return [
        shown_row(int(id_), key, {name: values[place] for name, values in records.metadata.items()},
                  looks)
        for place, (id_, key) in enumerate(zip(records.ids.tolist(), records.keys, strict=True))
    ]  # fmt: skip


def shown_row(id_: int, key: str | None, values: dict[str, Any], looks: Looks) -> dict[str, Any]:
    """One row, from its stored values."""
    text = values.get(looks.text) if looks.text else None
    label = values.get(looks.label) if looks.label else None
    row: dict[str, Any] = {"id": str(id_)}
    if key is not None:
        row["key"] = key
    if text is not None:
        row["text"] = _short(str(text))
    if label is not None:
        row["label"] = str(label)
    image = values.get(looks.image) if looks.image else None
    if isinstance(image, str) and image.startswith("data:image/"):
        row["image"] = image
    elif isinstance(image, str) and image and looks.has_files:
        row["image"] = "file"
    taken = {looks.text, looks.image, looks.label}
    others = {
        name: _short(value) if isinstance(value, str) else plain(value)
        for name, value in values.items()
        if name not in taken and value is not None
    }
    if others:
        row["columns"] = others
    return row


def as_bytes(vectors: Vectors, brightness: tuple[float, float]) -> NDArray[np.uint8]:
    """Pictures of 256 grades."""
    low, high = brightness
    scaled = (np.asarray(vectors, np.float32) - low) * (255 / (high - low))
    grades: NDArray[np.uint8] = np.clip(np.nan_to_num(scaled), 0, 255).round().astype(np.uint8)
    return grades


def as_texts(ids: Ids) -> list[str]:
    """Ids for JSON."""
    return list(map(str, ids.tolist()))


def pooled(vectors: Vectors, most: int) -> Vectors:
    """At most `most` columns, each the mean of its neighbours: a long spectrum as a short one."""
    width = vectors.shape[1]
    if width <= most:
        return vectors
    edges = np.linspace(0, width, most + 1).astype(int)
    sums = np.add.reduceat(vectors, edges[:-1], axis=1)
    return (sums / np.diff(edges)).astype(np.float32)


def search_texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What a typed query is looked for in, one text per row."""
    return [
        " ".join(
            str(value)
            for name, value in [*row.items(), *row.get("columns", {}).items()]
            if name not in ("image", "columns")
        ).lower()
        for row in rows
    ]


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1].rstrip() + "…"
