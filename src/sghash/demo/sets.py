"""What the demonstration can be shown on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sghash.data.dataset import DataSet
from sghash.data.loading import load_dataset
from sghash.errors import MissingData


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


#: What `--data` may be.
DEMO_SETS: dict[str, DemoSet] = {
    "digits": DemoSet(("digits",), "digit", "digits", (16, 64), (8, 8)),
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
        """Rows of the queries to show: by their text, else one of each class, else the first."""
        texts, labels = self.data.query_texts, self.data.query_labels
        n = len(self.queries)
        if texts is not None:
            found = [
                next((row for row in range(n) if texts[row].startswith(start)), None)
                for start in self.set.shown
            ]
            return [row for row in found if row is not None] or list(range(min(5, n)))
        if labels is not None:
            _, first = np.unique(labels[:n], return_index=True)
            return [int(row) for row in first]
        return list(range(min(10, n)))


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
        base = data.base.read(0, min(data.base.shape[0], chosen.n_rows))
        queries = data.queries.read(0, min(data.queries.shape[0], chosen.n_queries))
        return Material(
            chosen, data, np.asarray(base, dtype=np.float32), np.asarray(queries, dtype=np.float32)
        )
    raise missing or MissingData(f"{name} is not here")
