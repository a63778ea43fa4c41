"""What the demonstration can be shown on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.data.catalog import CATALOG
from sghash.data.dataset import DataSet
from sghash.data.loading import BUILT_IN, find_files, load_dataset
from sghash.data.sources import RowSource
from sghash.errors import MissingData

# A part of a file is read in so many blocks.
_BLOCKS = 50


@dataclass(frozen=True)
class DemoSet:
    """A data set, and how it is shown.

    Attributes
    ----------
    names : tuple of str
        What `load_dataset` calls it; the first that is here is taken.
    unit, units : str
        What one row is called, and several.
    n_bits : tuple of int
        Code lengths to measure; pictures and the collection are of the last.
    picture : tuple of int or None
        Height, width (and 3 for colours) of the picture a row is.
    n_steps : int or None
        Training steps of SGH; None is its own budget.
    n_rows, n_queries : int
        At most so many rows are taken.
    shown : tuple of str
        Queries to show: those whose text begins so; else the first ones.
    classes : tuple of str
        What labels stand for; labels themselves where this is empty.
    """

    names: tuple[str, ...]
    unit: str
    units: str
    n_bits: tuple[int, ...]
    picture: tuple[int, ...] | None = None
    n_steps: int | None = None
    n_rows: int = 100_000
    n_queries: int = 500
    shown: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


#: What is shown unless another is asked for.
DEFAULT_SET = "digits"
#: What `--data` may be.
DEMO_SETS: dict[str, DemoSet] = {
    "digits": DemoSet(("digits",), "digit", "digits", (16, 64), (8, 8)),
    "sentences": DemoSet(
        ("sentences",),
        "sentence",
        "sentences",
        (64, 256),
        n_steps=500,
        shown=("The tooth erupted", "He drank a jar", "He was at bat", "The bus thundered"),
    ),
    "mnist": DemoSet(("mnist",), "digit", "digits", (64,), (28, 28), n_steps=1000),
    "cifar10": DemoSet(
        ("cifar10", "cifar10-jpeg"),
        "picture",
        "pictures",
        (64,),
        (32, 32, 3),
        n_steps=500,
        n_rows=10_000,
        n_queries=200,
        classes=(
            *("plane", "car", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
    ),
    "glove": DemoSet(
        ("glove100",),
        "word",
        "words",
        (64,),
        n_steps=2000,
        shown=("hurricane", "musicians", "physics", "shark", "budapest", "spacecraft"),
    ),
    "minilm": DemoSet(
        ("minilm-wordnet",),
        "definition",
        "definitions",
        (128,),
        n_steps=1000,
        shown=("knuckleball", "seismography", "sob, sobbing", "expedition", "hurling"),
    ),
}


@dataclass(frozen=True)
class Material:
    """The rows of a set in memory: float32 vectors, and what is known of them."""

    set: DemoSet
    data: DataSet
    base: NDArray[np.float32]
    queries: NDArray[np.float32]
    base_rows: NDArray[np.int64]
    query_rows: NDArray[np.int64]

    def base_name(self, place: int) -> str:
        """Text or class of a row of `base`; its number where it has neither."""
        return self._name(self.data.base_texts, self.data.base_labels, self.base_rows[place])

    def query_name(self, place: int) -> str:
        """Text or class of a row of `queries`; its number where it has neither."""
        return self._name(self.data.query_texts, self.data.query_labels, self.query_rows[place])

    def _name(self, texts: Sequence[str] | None, labels: NDArray[Any] | None, row: int) -> str:
        if texts is not None:
            return texts[row]
        if labels is None:
            return str(row)
        return self.set.classes[labels[row]] if self.set.classes else str(labels[row])

    def picture(self, vector: NDArray[np.float32]) -> NDArray[np.float64]:
        """A row as a picture of numbers from 0 to 1, whether it is an original or decoded."""
        shape = self.set.picture or ()
        if self.data.name == "cifar10":
            # The publisher stores red, then green, then blue.
            pixels = vector.reshape(3, *shape[:2]).transpose(1, 2, 0)
        else:
            pixels = vector.reshape(shape)
        return np.clip(pixels.astype(np.float64) / self._brightest, 0, 1)

    @cached_property
    def _brightest(self) -> float:
        return float(self.base.max()) or 1.0

    @property
    def shown(self) -> list[int]:
        """Places among the queries to show: by their text, else one of each class."""
        names = [self.query_name(place) for place in range(len(self.queries))]
        if self.data.query_texts is None:
            labels = self.data.query_labels
            known = names if labels is None else labels[self.query_rows]
            return [int(place) for place in np.unique(known, return_index=True)[1][:10]]
        found = [
            next((place for place, name in enumerate(names) if name.startswith(start)), None)
            for start in self.set.shown
        ]
        return [place for place in found if place is not None] or list(range(min(5, len(names))))


def is_here(name: str) -> bool:
    """Whether `load_set` would find the files of what `DEMO_SETS` calls `name`."""
    return any(
        known in BUILT_IN or any(find_files(known, v.files) for v in CATALOG[known].variants)
        for known in DEMO_SETS[name].names
    )


def load_set(name: str) -> Material:
    """Load what `DEMO_SETS` calls `name`; nothing is downloaded."""
    chosen = DEMO_SETS[name]
    missing: MissingData | None = None
    for known in chosen.names:
        try:
            data = load_dataset(known, fetch=False)
        except MissingData as error:
            missing = missing or error
            continue
        base, base_rows = _spread(data.base, chosen.n_rows)
        queries, query_rows = _spread(data.queries, chosen.n_queries)
        return Material(chosen, data, base, queries, base_rows, query_rows)
    raise missing or MissingData(f"{name} is not here")


def _spread(source: RowSource, limit: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """At most `limit` rows from all over the source, since files may be sorted by class."""
    n = source.shape[0]
    if n <= limit:
        return np.asarray(source.read(0, n), dtype=np.float32), np.arange(n)
    size = limit // _BLOCKS
    starts = np.linspace(0, n - size, _BLOCKS).astype(int).tolist()
    parts = [np.asarray(source.read(start, start + size), dtype=np.float32) for start in starts]
    return np.concatenate(parts), np.concatenate([np.arange(s, s + size) for s in starts])
