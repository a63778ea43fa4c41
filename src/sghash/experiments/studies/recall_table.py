"""Recall of models on five data sets by code length, and its ratio to ITQ's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import Measured, as_measured, geometric_mean, measurements
from sghash.experiments.experiment import Context, Drawing, Row, Table
from sghash.experiments.hashing import draws_nothing, hashing_rows
from sghash.experiments.studies.tables import ALL_SETS, sets_of, study, table_of

MODELS = ("SGH", "SGH(neighbors=10)", "SGH.paper", "ITQ", "LSH", "PCAHashing", "SignHashing")
RIVAL = "ITQ"
VALUE = "recall10@100"
BY = ("set", "n_bits", "model")
#: A ratio, and half of its interval where that is known.
Ratio: TypeAlias = tuple[float, float | None]
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
    found = measurements(rows, VALUE, BY, fixed=draws_nothing)
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
    caption += "; none where a method that draws has one seed"
    return Table(["model", "bits", *sets, "geometric mean"], cells, caption)


def ratio(ours: Measured | Estimate, rival: Measured | Estimate) -> Ratio:
    """Of independent means, and half its interval: the relative half-widths add in squares.

    None for the interval where a method that draws has one seed: nothing is known of its spread.
    """
    pair = [as_measured(one) for one in (ours, rival)]
    value = pair[0].seeds.mean / pair[1].seeds.mean
    halves = [0.0 if one.is_fixed else one.seeds.half_width for one in pair]
    known = [half for half in halves if half is not None]
    if len(known) < len(pair):
        return value, None
    parts = zip(known, pair, strict=True)
    return value, value * math.hypot(*(half / one.seeds.mean for half, one in parts))


def mean_of(parts: Sequence[Ratio]) -> Ratio:
    """Geometric mean with half of its interval, where that of every part is known."""
    mean = geometric_mean([value for value, _ in parts])
    relative = [half / value for value, half in parts if half is not None]
    if len(relative) < len(parts):
        return mean, None
    return mean, mean * math.hypot(*relative) / len(parts)


def _text(part: Ratio | None) -> str:
    if part is None:
        return ""
    value, half = part
    return f"{value:.3f}" if half is None else f"{value:.3f} ± {half:.3f}"


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
