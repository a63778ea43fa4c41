"""Recall10@N and Recall1@N of every method, by Hamming distance."""

from __future__ import annotations

from collections.abc import Sequence

from sghash.experiments.comparisons import (
    estimates,
    outcome_of,
    standing,
    text_of,
    with_mean,
    worst_of,
)
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
    DEFAULT,
    DEPTHS,
    NEIGHBOR_TERM,
    OURS,
    PAPER,
    RIVALS,
    SEEDS_TOLD,
    hashing_rows,
)
from sghash.experiments.pictures import recall_drawing
from sghash.experiments.sets import STAND_INS, image_sets

LENGTHS = (16, 32, 64)
QUICK_LENGTHS = (8, 16)
BY = ("set", "n_bits", "model")


def run(context: Context) -> list[Row]:
    """Measure every method on every set."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    return hashing_rows(context, image_sets(context), (*OURS, *RIVALS, *BEYOND), lengths)


def verdict(rows: Sequence[Row]) -> Verdict:
    """Is SGH ahead of every rival of the paper, in every cell?"""
    said = []
    outcomes = []
    for k in (10, 1):
        found = estimates(_with_curve_mean(rows, k), f"curve{k}", BY)
        stands = {model: standing(found, model, RIVALS) for model in OURS}
        outcomes.append(outcome_of(stands[PAPER]))
        said.append(
            f"Recall{k}@N, mean over N from {k} to 1000, against the best of the paper's rivals: "
            + "; ".join(f"{model} {stand}" for model, stand in stands.items() if sum(stand))
        )
    best = ", ".join(_winners(rows))
    said.append(f"Best in each cell by Recall10@N: {best}")
    return Verdict(worst_of(outcomes), ". ".join(said) + ".")


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Curves per set and K, and the numbers at N = 100."""
    sets = list(dict.fromkeys(row["settings"]["set"] for row in check_rows(rows)))
    parts: list[Table | Drawing] = [
        recall_drawing(
            [row for row in rows if row["settings"]["set"] == name],
            k=k,
            title=f"{name}: Recall{k}@N",
        )
        for k in (10, 1)
        for name in sets
    ]
    for name in sets:
        parts += [_table(rows, name), _times(rows, name)]
    return parts


def _with_curve_mean(rows: Sequence[Row], k: int) -> list[Row]:
    names = [f"recall{k}@{n}" for n in DEPTHS if n >= k]
    return with_mean(check_rows(rows), names, f"curve{k}")


def _winners(rows: Sequence[Row]) -> list[str]:
    found = estimates(_with_curve_mean(rows, 10), "curve10", BY)
    winners = []
    for place in dict.fromkeys(cell[:-1] for cell in found):
        here = {cell[-1]: value.mean for cell, value in found.items() if cell[:-1] == place}
        winners.append(f"{place[0]} {place[1]} bits {max(here, key=lambda m: here[m])}")
    return winners


def _table(rows: Sequence[Row], name: str) -> Table:
    here = [row for row in rows if row["settings"]["set"] == name]
    lengths = list(dict.fromkeys(row["settings"]["n_bits"] for row in here))
    models = list(dict.fromkeys(row["settings"]["model"] for row in here))
    wanted = [("recall10@100", n) for n in lengths] + [("recall1@100", n) for n in lengths]
    found = {value: estimates(here, value, ("n_bits", "model")) for value, _ in wanted}
    cells = [[m, *(text_of(found[value].get((n, m))) for value, n in wanted)] for m in models]
    titles = {"recall10@100": "Recall10@100", "recall1@100": "Recall1@100"}
    headings = ["method", *(f"{titles[value]}, {n} bits" for value, n in wanted)]
    return Table(headings, cells, f"{name}: mean over seeds ± half of its 95 % interval")


def _times(rows: Sequence[Row], name: str) -> Table:
    here = [row for row in rows if row["settings"]["set"] == name]
    lengths = list(dict.fromkeys(row["settings"]["n_bits"] for row in here))
    models = list(dict.fromkeys(row["settings"]["model"] for row in here))
    values = {"train_seconds": "train", "encode_seconds": "encode"}
    found = {value: estimates(here, value, ("n_bits", "model")) for value in values}
    seeds = {m: len({r["settings"]["seed"] for r in here if r["settings"]["model"] == m})
             for m in models}  # fmt: skip
    cells = [
        [m, *(text_of(found[value].get((n, m)), 2) for value in values for n in lengths),
         str(seeds[m])]
        for m in models
    ]  # fmt: skip
    headings = [f"{said} s, {n} bits" for said in values.values() for n in lengths]
    caption = f"{name}: seconds to learn from all vectors, and to encode them all"
    return Table(["method", *headings, "seeds"], cells, caption)


EXPERIMENT = Experiment(
    name="recall_l2",
    title="Recall of Euclidean neighbours",
    claim="SGH finds more true neighbours than every other hashing method, for every code length "
    "and data set, by Recall10@N and by Recall1@N.",
    shown="Figure 2 (Recall10@N) and Figure 6 (Recall1@N)",
    setup=f"{STAND_INS} 16, 32 and 64 bits, N up to 1000; {SEEDS_TOLD}. {NEIGHBOR_TERM} is our "
    f"extension, {DEFAULT} our default, {PAPER} the paper's algorithm and constants. LSH and PCA "
    "hashing are drawn beside the paper's rivals.",
    notes="What may explain a difference: other descriptors than SIFT-1M and GIST-1M, fewer of "
    "them, and rivals in our own implementations, all of which centre their vectors.",
    run=run,
    verdict=verdict,
    draw=draw,
)
