"""The demonstration's folder: a collection made anew, searched, and read back from the disk."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sghash.collection import Collection
from sghash.demo.sets import Material
from sghash.errors import StorageError
from sghash.files import storage_errors, write_atomically
from sghash.neighbors import Neighbors

# Says that the folder is ours: what it holds may be replaced by the next demonstration.
_MARK = "made-by-sghash-demo.txt"
#: Neighbours to show, and to find for the recall of the decoder's scores.
SHOWN, DEEPEST = 5, 1000


@dataclass(frozen=True)
class Shelf:
    """A collection on disk and what a search in it found.

    Attributes
    ----------
    scored : Neighbors
        Of every query, by the decoder's scores.
    n_bytes : int
        Bytes of one code.
    bytes_on_disk : int
        All files of the collection, the model's too.
    """

    folder: Path
    scored: Neighbors
    n_bytes: int
    add_seconds: float
    open_seconds: float
    search_seconds: float
    bytes_on_disk: int

    def names(self, material: Material, query: int) -> list[str]:
        """What the nearest rows of a query are called, nearest first."""
        return [material.base_name(row) for row in self.scored.ids[query, :SHOWN].tolist()]


def prepare(folder: Path) -> None:
    """Make `folder`, or empty it of what an earlier demonstration left."""
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / _MARK).is_file()):
            raise StorageError(
                f"{folder} exists and was not made by a demonstration: choose another with --output"
            )
        for name in ("collection", "sentences"):
            shutil.rmtree(folder / name, ignore_errors=True)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).write_text("Made by `sghash demo`, which may replace it.\n")


def keep(material: Material, model: Any, folder: Path) -> Shelf:
    """Make a collection in `folder`, add every vector, open it again, search it.

    The queries lie beside it, for whoever wants to repeat the search.
    """
    write_atomically(
        folder / "queries.npy", lambda stream: np.save(stream, material.queries, allow_pickle=False)
    )
    path = folder / "collection"
    columns = _columns(material)
    clock = time.perf_counter()
    with Collection.create(path, model, metric=material.data.metric) as collection:
        collection.add(material.base, metadata=columns)
        collection.describe(**_roles(material, *columns))
    added = time.perf_counter() - clock
    clock = time.perf_counter()
    collection = Collection.open(path)
    opened = time.perf_counter() - clock
    depth = min(DEEPEST, len(material.base))
    # The first call compiles; the second asks for as many as people do.
    scored = collection.search(material.queries, k=depth, rerank="decoder", shortlist="all")
    clock = time.perf_counter()
    collection.search(material.queries, k=10, rerank="decoder", shortlist="all")
    searched = time.perf_counter() - clock
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Shelf(path, scored, -(-model.n_bits // 8), added, opened, searched, size)


def _roles(material: Material, column: str) -> dict[str, str]:
    """What the rows are to somebody who looks at them."""
    roles = {"label" if material.data.base_texts is None else "text": column}
    # The publisher of CIFAR-10 stores colour by colour, which is no picture row by row.
    if material.set.picture is not None and material.data.name != "cifar10":
        roles["picture"] = "x".join(map(str, material.set.picture))
    return roles


def _columns(material: Material) -> dict[str, list[str]]:
    column = "label" if material.data.base_texts is None else material.set.unit
    return {column: [material.base_name(place) for place in range(len(material.base))]}
