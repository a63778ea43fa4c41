"""Recall10@N and Recall1@N of every method, by Hamming distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sghash.experiments.comparisons import (
    LEAST_RECALL,
    Cell,
    Measured,
    difference,
    estimates,
    measurements,
    medians,
    seconds_text,
    text_of,
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
    NEIGHBOR_TERM,
    OURS,
    PAPER,
    RIVALS,
    SEEDS_TOLD,
    curve_of,
    draws_nothing,
    hashing_rows,
    rows_seen,
)
from sghash.experiments.pictures import recall_drawing
from sghash.experiments.sets import STAND_INS, image_sets
from sghash.experiments.standings import (
    Judgement,
    Standing,
    count,
    deciding_rivals,
    judgements,
    leads,
    outcome_of,
    worst_of,
)

LENGTHS = (16, 32, 64)
QUICK_LENGTHS = (8, 16)
BY = ("set", "n_bits", "model")
#: Judged together: Recall10@N and Recall1@N.
NEIGHBORS = (10, 1)


def run(context: Context) -> list[Row]:
    """Measure every method on every set."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    return hashing_rows(context, image_sets(context), (*OURS, *RIVALS, *BEYOND), lengths)


def verdict(rows: Sequence[Row], *, judged: str = PAPER) -> Verdict:
    """Is SGH (`judged`, one of `OURS`) ahead of every rival of the paper, in every cell?"""
    found = _by_k(check_rows(rows))
    stands = {model: _stands(judgements(found, model, RIVALS)) for model in OURS}
    said = []
    for k in NEIGHBORS:
        own = {model: stand[k] for model, stand in stands.items() if sum(stand[k])}
        said.append(
            f"Recall{k}@N, mean over N from {k} to 1000, against all of the paper's rivals: "
            + "; ".join(f"{model} {stand}" for model, stand in own.items())
        )
    said.append(
        "Best in each cell by Recall10@N, with all that are not told apart from it: "
        + _winners(found)
    )
    outcome = worst_of([outcome_of(stand) for stand in stands[judged].values()])
    return Verdict(outcome, ". ".join(said) + ".")


def _by_k(rows: Sequence[Row]) -> dict[Cell, Measured]:
    """Both recalls as one claim's comparisons: (K, set, length, method) -> what was measured."""
    return {
        (k, *cell): value
        for k in NEIGHBORS
        for cell, value in measurements(rows, curve_of(k), BY, fixed=draws_nothing).items()
    }


def _stands(judged: Mapping[Cell, Judgement]) -> dict[int, Standing]:
    return {k: count(one for place, one in judged.items() if place[0] == k) for k in NEIGHBORS}


def draw(rows: Sequence[Row], *, judged: str = PAPER) -> list[Table | Drawing]:
    """Curves per set and K, and the numbers at N = 100."""
    sets = list(dict.fromkeys(row["settings"]["set"] for row in check_rows(rows)))
    parts: list[Table | Drawing] = [
        recall_drawing(
            [row for row in rows if row["settings"]["set"] == name],
            k=k,
            title=f"{name}: Recall{k}@N",
        )
        for k in NEIGHBORS
        for name in sets
    ]
    decided = judgements(_by_k(rows), judged, RIVALS)
    for k in NEIGHBORS:
        here = {place[1:]: one for place, one in decided.items() if place[0] == k}
        caption = f"Recall{k}@N, mean over N: {judged} beside its closest rival"
        parts.append(deciding_rivals(here, judged, caption))
    for name in sets:
        parts += [_table(rows, name), _times(rows, name)]
    return parts


def _winners(found: Mapping[Cell, Measured]) -> str:
    """Per cell the method that finds most, and all that are not told apart from it."""
    winners = []
    for place in dict.fromkeys(cell[:-1] for cell in found if cell[0] == 10):
        here = {cell[-1]: value for cell, value in found.items() if cell[:-1] == place}
        best = max(here, key=lambda model: here[model].seeds.mean)
        others = [model for model in here if model != best]
        gaps = [difference(here[best], here[model]) for model in others]
        signs = zip(others, leads(gaps, LEAST_RECALL), strict=True)
        level = [best, *(model for model, sign in signs if not sign)]
        winners.append(f"{place[1]} {place[2]} bits {' and '.join(level)}")
    return ", ".join(winners)


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
    values = {"cpu_seconds": "train", "encode_cpu_seconds": "encode"}
    found = {value: medians(here, value, ("n_bits", "model")) for value in values}
    seeds = {m: len({r["settings"]["seed"] for r in here if r["settings"]["model"] == m})
             for m in models}  # fmt: skip
    cells = [
        [m, *(seconds_text(found[value].get((n, m))) for value in values for n in lengths),
         rows_seen(m, here[0]["settings"]["n_vectors"]), str(seeds[m])]
        for m in models
    ]  # fmt: skip
    headings = [f"{said} s, {n} bits" for said in values.values() for n in lengths]
    caption = (
        f"{name}: processor seconds to learn from the number of vectors in the last columns, and "
        "to encode all; medians over seeds"
    )
    return Table(["method", *headings, "learned from", "seeds"], cells, caption)


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
