"""Recall100@100 against the code length."""

from __future__ import annotations

from collections.abc import Sequence

from sghash.experiments.comparisons import measurements
from sghash.experiments.experiment import (
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Verdict,
    check_rows,
)
from sghash.experiments.hashing import (
    BEYOND,
    OURS,
    PAPER,
    RIVALS,
    SEEDS_TOLD,
    draws_nothing,
    hashing_rows,
)
from sghash.experiments.pictures import by_length_differences, by_length_table
from sghash.experiments.sets import STAND_INS, image_sets
from sghash.experiments.standings import deciding_rivals, judgements, outcome_of, standing

LENGTHS = (8, 16, 32, 64)
QUICK_LENGTHS = (8, 16)
VALUE = "recall100@100"
BY = ("set", "n_bits", "model")


def run(context: Context) -> list[Row]:
    """Measure every method at every length; 16 bits and more are shared with the recall curves."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    return hashing_rows(context, image_sets(context), (*OURS, *RIVALS, *BEYOND), lengths)


def verdict(rows: Sequence[Row]) -> Verdict:
    """Is SGH ahead of every rival at every length?"""
    found = measurements(check_rows(rows), VALUE, BY, fixed=draws_nothing)
    stands = {model: standing(found, model, RIVALS) for model in OURS}
    said = "; ".join(f"{model} {stand}" for model, stand in stands.items() if sum(stand))
    return Verdict(
        outcome_of(stands[PAPER]), f"Recall100@100 against all of the paper's rivals: {said}."
    )


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """A figure and a table per set."""
    parts: list[Table | Drawing] = []
    for name in dict.fromkeys(row["settings"]["set"] for row in check_rows(rows)):
        here = [row for row in rows if row["settings"]["set"] == name]
        parts.append(by_length_differences(here, VALUE, "Recall100@100", title=name))
        parts.append(by_length_table(here, VALUE, f"{name}: Recall100@100"))
    found = measurements(rows, VALUE, BY, fixed=draws_nothing)
    caption = f"Recall100@100: {PAPER} beside its closest rival"
    return [*parts, deciding_rivals(judgements(found, PAPER, RIVALS), PAPER, caption)]


EXPERIMENT = Experiment(
    name="recall_by_length",
    title="Recall by code length",
    claim="SGH has the highest Recall100@100 from 8 to 64 bits on MNIST, SIFT and GIST.",
    shown="Figure 7",
    setup=f"{STAND_INS} 8, 16, 32 and 64 bits; {SEEDS_TOLD}.",
    notes="What may explain a difference: as for the recall curves; at 8 bits many codes "
    "coincide, so that ties, broken by id, decide much of Recall100@100.",
    run=run,
    verdict=verdict,
    draw=draw,
)
