"""Recall of models on five data sets by code length, and its ratio to ITQ's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import estimates, geometric_mean
from sghash.experiments.experiment import Context, Drawing, Row, Table
from sghash.experiments.hashing import hashing_rows
from sghash.experiments.studies.tables import ALL_SETS, sets_of, study, table_of

MODELS = ("SGH", "SGH(neighbors=10)", "SGH.paper", "ITQ", "LSH", "PCAHashing", "SignHashing")
RIVAL = "ITQ"
VALUE = "recall10@100"
BY = ("set", "n_bits", "model")
LENGTHS, QUICK_LENGTHS = (16, 32, 64, 128), (16, 32)


def run(context: Context) -> list[Row]:
    """A row per set, model, length and seed."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    return hashing_rows(context, sets_of(context, ALL_SETS), MODELS, lengths)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """One table per set, then the ratios."""
    values = ("recall10@10", VALUE, "recall10@1000", "train_seconds", "encode_seconds")
    parts: list[Table | Drawing] = []
    for name in dict.fromkeys(row["settings"]["set"] for row in rows):
        here = [row for row in rows if row["settings"]["set"] == name]
        parts.append(table_of(here, ("model", "n_bits"), values, name))
    return [*parts, ratios(rows)]


def ratios(rows: Sequence[Row]) -> Table:
    """Ratios of recall to the rival's by cell, and geometric means over the sets."""
    found = estimates(rows, VALUE, BY)
    sets = list(dict.fromkeys(cell[0] for cell in found))
    cells = []
    for model in dict.fromkeys(cell[2] for cell in found if cell[2] != RIVAL):
        for n_bits in dict.fromkeys(cell[1] for cell in found):
            pairs = [(found.get((s, n_bits, model)), found.get((s, n_bits, RIVAL))) for s in sets]
            parts = [ratio(a, b) if a and b else None for a, b in pairs]
            known = [part for part in parts if part is not None]
            mean = mean_of(known) if len(known) == len(sets) else None
            cells.append([model, str(n_bits), *map(_text, [*parts, mean])])
    caption = f"Ratios of {VALUE} to {RIVAL}'s, ± half of the 95 % interval of both seeds' means"
    return Table(["model", "bits", *sets, "geometric mean"], cells, caption)


def ratio(ours: Estimate, rival: Estimate) -> tuple[float, float]:
    """Of independent means, and half its interval: the relative half-widths add in squares."""
    relative = [(one.half_width or 0.0) / one.mean for one in (ours, rival)]
    value = ours.mean / rival.mean
    return value, value * math.hypot(*relative)


def mean_of(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Geometric mean with half of its interval."""
    mean = geometric_mean([value for value, _ in parts])
    return mean, mean * math.hypot(*(half / value for value, half in parts)) / len(parts)


def _text(part: tuple[float, float] | None) -> str:
    return "" if part is None else f"{part[0]:.3f} ± {part[1]:.3f}"


EXPERIMENT = study(
    "recall_table",
    title="Recall by model, data set and code length",
    question="How much more do learned codes find, on images, descriptors, words and sentences?",
    setup="five whole sets with all their queries, 16 to 128 bits, ranked by Hamming distance. "
    "Models learn from the vectors that are searched, never from queries. Times depend on the "
    "machine: read their ratios.",
    run=run,
    draw=draw,
)
