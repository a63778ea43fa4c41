"""A collection, or several, as one HTML file that does without a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash.collection import Collection
from sghash.errors import InvalidInput
from sghash.files import write_atomically
from sghash.serve.explorer.about import about
from sghash.serve.explorer.drawing import drawn_bits, drawn_map
from sghash.serve.explorer.packing import json_text, packed
from sghash.serve.explorer.page import document
from sghash.serve.explorer.pictures import embedded
from sghash.serve.explorer.rows import shown_row
from sghash.serve.explorer.sample import Sample
from sghash.serve.explorer.tradeoff import LENGTHS, tradeoff
from sghash.validation import Vectors, check_count

#: Rows of each collection in a file, unless another number is asked for.
MOST_ROWS = 5000
# Bytes that the vectors of one collection, and its pictures, may take in the file.
_MOST_BYTES = 12_000_000


class Exported(NamedTuple):
    """What was written: the file, and how many rows of how many it holds."""

    path: Path
    n_rows: int
    n_all: int
    n_bytes: int


class Given(NamedTuple):
    """What to put into a file: a collection, and its vectors where it keeps none itself."""

    collection: Collection
    vectors: Any = None
    images: Path | None = None
    lengths: tuple[int, ...] = LENGTHS


def write_export(
    path: Path, collections: Mapping[str, Given | Collection], *, most_rows: int = MOST_ROWS
) -> Exported:
    """Write one HTML file with at most `most_rows` rows of each collection."""
    check_count(most_rows, name="rows")
    n_rows = n_all = 0
    held: dict[str, Any] = {}
    for name, each in collections.items():
        given = each if isinstance(each, Given) else Given(each)
        width = int(given.collection.model.n_features_in_)
        sample = Sample(
            given.collection,
            most=max(1, min(most_rows, _MOST_BYTES // width)),
            vectors=given.vectors,
        )
        if not len(sample):
            raise InvalidInput(f"the collection {name} has no rows to show: add some first")
        held[name] = static_data(name, given, sample)
        n_rows, n_all = n_rows + len(sample), n_all + sample.n_all
    title = ", ".join(collections)
    data = document(f"{title} · sghash", json_text({"collections": held})).encode()
    write_atomically(path, lambda stream: stream.write(data))
    return Exported(path, n_rows, n_all, len(data))


def static_data(name: str, given: Given, sample: Sample) -> dict[str, Any]:
    """All that the page needs of one collection when there is no server to ask."""
    data: dict[str, Any] = {
        "about": about(name, sample),
        "map": drawn_map(sample),
        "bits": drawn_bits(sample),
        "rows": _rows(sample, given.images),
        "tradeoff": tradeoff(sample, lengths=given.lengths),
    }
    if sample.vectors is not None:
        data["vectors"] = _rounded(sample.vectors)
    if not sample.is_bits and sample.model.capabilities.decodes:
        data["decoded"] = _rounded(np.asarray(sample.model.decode(sample.codes), np.float32))
    if sample.decoder is not None:
        data["decoder"] = {
            "origin": packed(sample.decoder.origin),
            "directions": packed(sample.decoder.directions),
            "squares": packed(sample.decoder.squares(sample.bits)),
        }
    return data


def _rounded(vectors: Vectors) -> dict[str, Any]:
    """Vectors as int8, each with the size of its own step: errors no eye and few ranks see."""
    largest = np.abs(vectors).max(axis=1)
    scales = (np.where(largest > 0, largest, 1) / 127).astype(np.float32)
    rounded = np.rint(vectors / scales[:, None]).astype(np.int8)
    return {"rows": packed(rounded), "scales": packed(scales)}


def _rows(sample: Sample, images: Path | None) -> list[dict[str, Any]]:
    rows = []
    left = _MOST_BYTES
    for place, (id_, key) in enumerate(zip(sample.ids.tolist(), sample.keys, strict=True)):
        values = {name: column[place] for name, column in sample.metadata.items()}
        row = shown_row(id_, key, values, sample.looks)
        picture: str | None = row.pop("image", None)
        if picture == "file":
            column = sample.looks.image
            picture = None
            if images is not None and column is not None:
                picture = embedded(images, str(values[column]), left)
        if picture is not None and len(picture) <= left:
            row["image"] = picture
            left -= len(picture)
        rows.append(row)
    return rows
