"""What happens in the demonstration: fit, encode, search, decode, keep; all numbers of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import unpack_bits
from sghash.demo.sentences import Sentences, read_sentences
from sghash.demo.sets import DEFAULT_SET, DEMO_SETS, Material
from sghash.demo.shelf import Shelf, keep, prepare
from sghash.evaluation.metrics import recall
from sghash.evaluation.specs import Run, build_model
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.neighbors import Neighbors
from sghash.validation import available_cores

#: Ours first, then what it is measured against, with options. Signs of the first few coordinates
#: would be hopeless on long vectors, so signs are taken along random directions, above the mean.
_OPTIONS: dict[str, dict[str, Any]] = {
    "SGH": {},
    "ITQ": {},
    "SignHashing": {"rotate": True, "threshold": "mean"},
}
DEMO_MODELS = tuple(_OPTIONS)
#: The K of RecallK@N, and the N of the curves.
K = 10
DEPTHS = (10, 20, 50, 100, 200, 500, 1000)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """A line of the table: one model, one length."""

    model: str
    n_bits: int
    bytes: int
    recall10_at_10: float
    recall10_at_50: float
    fit_seconds: float
    codes_per_second: float
    queries_per_second: float


@dataclass(frozen=True)
class Story:
    """Everything the demonstration shows, before anybody decides how.

    Attributes
    ----------
    rows : list of Row
        The table.
    curves : dict
        Code length -> (model, depths, recalls) of each model.
    models : dict
        (name, n_bits) -> fitted model.
    truth : Neighbors
        Exact neighbours of the queries.
    shelf : Shelf
        The collection, and what was found in it.
    sentences : Sentences or None
        What was found among sentences; they stand beside the digits alone.
    """

    material: Material
    seed: int
    rows: list[Row]
    curves: dict[int, list[tuple[str, list[int], list[float]]]]
    models: dict[tuple[str, int], Any]
    truth: Neighbors
    shelf: Shelf
    sentences: Sentences | None = None

    @property
    def n_bits(self) -> int:
        """The length that is shown in pictures."""
        return self.material.set.n_bits[-1]

    def model(self, name: str = "SGH") -> Any:
        """A fitted model of that length."""
        return self.models[name, self.n_bits]

    def bits(self, rows: list[int], name: str = "SGH") -> NDArray[np.bool_]:
        """Codes of some queries, unpacked."""
        return unpack_bits(self.model(name).encode(self.material.queries[rows]), self.n_bits)

    def facts(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "data": self.material.data.name,
            "n": len(self.material.base),
            "dimensions": self.material.base.shape[1],
            "queries": len(self.material.queries),
            "seed": self.seed,
            "rows": [asdict(row) for row in self.rows],
            "collection": str(self.shelf.folder),
            **({} if self.sentences is None else {"sentences": _facts_of(self.sentences)}),
        }


def tell(material: Material, folder: Path, *, seed: int, say: Say) -> Story:
    """Fit every model on the material, measure it, and keep the best codes in `folder`."""
    prepare(folder)
    say("finding the true neighbours")
    truth = exact_neighbors(
        material.base,
        material.queries,
        max(K, 5),
        metric=material.data.metric,
        threads=available_cores(),
    )
    models, rows = {}, []
    curves: dict[int, list[tuple[str, list[int], list[float]]]] = {}
    for name in DEMO_MODELS:
        for n_bits in material.set.n_bits:
            say(f"fitting {name} with {n_bits} bits")
            model, row, curve = _measured(material, truth, name, n_bits, seed)
            models[name, n_bits] = model
            rows.append(row)
            curves.setdefault(n_bits, []).append(curve)
    n_bits = material.set.n_bits[-1]
    say("making a collection and searching it")
    shelf = keep(material, models["SGH", n_bits], folder)
    sentences = None
    if material.data.name in DEMO_SETS[DEFAULT_SET].names:
        say("searching sentences")
        sentences = read_sentences(folder / "sentences", seed=seed)
    story = Story(material, seed, rows, curves, models, truth, shelf, sentences)
    return _with_scores(story)


def _facts_of(sentences: Sentences) -> dict[str, Any]:
    return {
        "collection": str(sentences.folder),
        "n": sentences.n,
        "queries": sentences.n_queries,
        "bytes": sentences.code_bytes,
        "recall10_at_10": sentences.recall,
        "shown": [
            {"query": query, "found": found, "truly_nearest": nearest}
            for query, found, nearest in sentences.shown
        ],
    }


def _measured(
    material: Material, truth: Neighbors, name: str, n_bits: int, seed: int
) -> tuple[Any, Row, tuple[str, list[int], list[float]]]:
    options = {**_OPTIONS[name], **({"n_steps": material.set.n_steps} if name == "SGH" else {})}
    model = build_model(Run(name, n_bits, seed, options), material.data.metric)
    clock = time.perf_counter()
    model.fit(material.base)
    fitted = time.perf_counter() - clock
    # The first calls compile.
    query_codes = model.encode(material.queries)
    clock = time.perf_counter()
    codes = model.encode(material.base)
    encoded = time.perf_counter() - clock
    depths = _depths(material)
    threads = available_cores()
    found = hamming_neighbors(codes, query_codes, depths[-1], n_bits=n_bits, threads=threads)
    clock = time.perf_counter()
    hamming_neighbors(codes, query_codes, K, n_bits=n_bits, threads=threads)
    searched = time.perf_counter() - clock
    curve = [recall(truth.ids, found.ids, k=K, n=n) for n in depths]
    row = Row(
        name,
        n_bits,
        codes.shape[1],
        curve[0],
        curve[depths.index(50)],
        fitted,
        len(codes) / encoded,
        len(query_codes) / searched,
    )
    return model, row, (name, depths, curve)


def _with_scores(story: Story) -> Story:
    """Add the line and the curve of the same codes, scored by the decoder."""
    shelf, truth, depths = story.shelf, story.truth, _depths(story.material)
    curve = [recall(truth.ids, shelf.scored.ids, k=K, n=n) for n in depths]
    name = "SGH, decoder"
    own = next(row for row in story.rows if (row.model, row.n_bits) == ("SGH", story.n_bits))
    row = Row(
        name,
        story.n_bits,
        own.bytes,
        curve[0],
        curve[depths.index(50)],
        own.fit_seconds,
        own.codes_per_second,
        len(story.material.queries) / shelf.search_seconds,
    )
    story.rows.insert(story.rows.index(own) + 1, row)
    story.curves[story.n_bits].insert(1, (name, depths, curve))
    return story


def _depths(material: Material) -> list[int]:
    return [n for n in DEPTHS if n <= len(material.base)]
