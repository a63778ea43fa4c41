"""Rows rescaled by random factors: what happens to codes and recall, invariant and plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.evaluation.metrics import recall
from sghash.evaluation.truth import ground_truth
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of
from sghash.kernels import hamming_neighbors
from sghash.models import model_class
from sghash.neighbors import Neighbors
from sghash.validation import Vectors

STORE = "scales"
SETS = ("mnist", "minilm-wordnet")
LENGTHS, QUICK_LENGTHS = (32, 64), (16,)
N_ROWS, N_QUERIES, SEEDS = 20_000, 500, 3
Make = Callable[..., Any]
MODELS: dict[str, Make] = {
    "ITQ": partial(model_class, "ITQ"),
    "SGH, plain": partial(model_class, "SGH"),
    "SGH on unit rows (cosine)": lambda: partial(model_class("SGH"), metric="cosine"),
    "ScaleInvariantSGH": partial(model_class, "ScaleInvariantSGH"),
}
#: The spread of the scales' prior was chosen with rows of the base in the place of the queries.
SPREADS: dict[str, Make] = {
    f"scale_spread={spread:g}": lambda s=spread: partial(
        model_class("ScaleInvariantSGH"), scale_spread=s
    )
    for spread in (0.02, 0.05, 0.1, 0.3, 1.0)
}


def run(context: Context) -> list[Row]:
    """All models with the queries; then spreads, at the shorter length, with rows held out."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    rows = []
    for which in sets_of(context, SETS):
        for n_bits in lengths:
            for model, make in MODELS.items():
                rows += [
                    _row(context, which, "queries", model, make, n_bits, seed)
                    for seed in range(min(context.seeds, SEEDS))
                ]
        if not context.quick:
            rows += [
                _row(context, which, "held-out rows", model, make, lengths[0], 0)
                for model, make in SPREADS.items()
            ]
    return rows


def _row(
    context: Context, which: BenchSet, asked: str, model: str, make: Make, n_bits: int, seed: int
) -> Row:
    n_rows, n_queries = context.pick((1400, 100), (N_ROWS, N_QUERIES))
    settings = {
        **which.settings(),
        "n_vectors": n_rows,
        "n_queries": n_queries,
        "asked": asked,
        "model": model,
        "n_bits": n_bits,
        "seed": seed,
    }

    def measure() -> Values:
        data = load(which)
        base = np.asarray(data.base[:n_rows], dtype=np.float32)
        queries = data.queries[:n_queries]
        if asked != "queries":
            queries = np.asarray(data.base[n_rows : n_rows + n_queries], dtype=np.float32)
        options = {"n_steps": 100} if context.quick and model != "ITQ" else {}
        new = partial(make(), n_bits=n_bits, random_state=seed, **options)
        return compare(new, base, queries, seed)

    return context.measured(STORE, settings, measure)


def compare(new: Make, base: Vectors, queries: Vectors, seed: int) -> Values:
    """Codes, recall and error before and after rescaling; neighbours by cosine."""
    rng = np.random.default_rng(seed)
    scaled, scaled_queries = base * factors(len(base), rng), queries * factors(len(queries), rng)
    truth = ground_truth(base, queries, 10, metric="cosine")
    model = new().fit(base)
    values = {
        "agreement": float((model.transform(base) == model.transform(scaled)).mean()),
        "recall_as_is": recall_of(model, base, queries, truth),
    }
    model = new().fit(scaled)
    values["recall_rescaled"] = recall_of(model, scaled, scaled_queries, truth)
    codes, energy = model.encode(scaled), float(np.square(scaled).sum())
    if model.get_params().get("metric") != "cosine":  # which decodes to unit rows
        values["error_codes_alone"] = _squares(scaled, model.decode(codes)) / energy
    if type(model).__name__ == "ScaleInvariantSGH":
        back = model.decode(codes, scales=model.scales(scaled))
        values["error_scales_kept"] = _squares(scaled, back) / energy
    return values


def factors(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Log-uniform in [0.1, 10], one per row."""
    return np.exp(rng.uniform(np.log(0.1), np.log(10), (n, 1))).astype(np.float32)


def recall_of(model: Any, base: Vectors, queries: Vectors, truth: Neighbors) -> float:
    """Recall10@100 by Hamming ranking."""
    found = hamming_neighbors(model.encode(base), model.encode(queries), 100, n_bits=model.n_bits)
    return recall(truth.ids, found.ids, k=10, n=100)


def _squares(vectors: Vectors, decoded: Vectors) -> float:
    return float(np.square(vectors - decoded).sum())


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """One table for the queries, one for the rows held out."""
    values = (
        "agreement", "recall_as_is", "recall_rescaled", "error_codes_alone", "error_scales_kept",
    )  # fmt: skip
    parts: list[Table | Drawing] = []
    for asked in dict.fromkeys(row["settings"]["asked"] for row in rows):
        here = [row for row in rows if row["settings"]["asked"] == asked]
        parts.append(table_of(here, ("set", "n_bits", "model"), values, f"Asked with {asked}"))
    return parts


EXPERIMENT = study(
    "scales",
    title="Rows of any length",
    question="What do codes lose when every row is multiplied by a factor of its own?",
    setup=f"log-uniform factors in [0.1, 10] for base and queries; {N_ROWS:,} vectors, {N_QUERIES} "
    "queries, neighbours by cosine, Recall10@100 by Hamming ranking. Agreement: the share of bits "
    "that a model trained on the rows as they are gives the same before and after. Errors: squared "
    "error of decoding rescaled rows, as a share of their squares, from codes alone and with the "
    "scales kept.",
    run=run,
    draw=draw,
)
