"""Do more complex decoders do better? Recall on SIFT and GIST, by decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sghash.evaluation.metrics import recall, unexplained_variance
from sghash.evaluation.truth import ground_truth
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of
from sghash.kernels import hamming_neighbors
from sghash.models import model_class

STORE = "decoders"
SETS = ("sift-photos", "cifar10-gist")
DECODERS = ("gaussian", "two-layer", "bernoulli")
LENGTHS, QUICK_LENGTHS = (16, 32), (16,)
N_ROWS, N_QUERIES, N_STEPS, SEEDS = 20_000, 500, 600, 3


def run(context: Context) -> list[Row]:
    """Every decoder at every length, by seeds."""
    return [
        _row(context, which, decoder, n_bits, seed)
        for which in sets_of(context, SETS)
        for n_bits in context.pick(QUICK_LENGTHS, LENGTHS)
        for decoder in DECODERS
        for seed in range(min(context.seeds, SEEDS))
    ]


def _row(context: Context, which: BenchSet, decoder: str, n_bits: int, seed: int) -> Row:
    settings = {
        **which.settings(),
        "n_vectors": context.pick(which.n_vectors, N_ROWS),
        "n_queries": context.pick(which.n_queries, N_QUERIES),
        "decoder": decoder,
        "n_bits": n_bits,
        "n_steps": context.pick(60, N_STEPS),
        "seed": seed,
    }

    def measure() -> Values:
        data = load(which)
        base = np.asarray(data.base[: settings["n_vectors"]], dtype=np.float32)
        # The Bernoulli decoder takes numbers between 0 and 1.
        top = float(base.max())
        low = min(0.0, float(base.min()))
        queries = np.clip((data.queries[: settings["n_queries"]] - low) / (top - low), 0, 1)
        base = (base - low) / (top - low)
        model = model_class("GeneralSGH")(
            n_bits=n_bits, decoder=decoder, n_steps=settings["n_steps"], random_state=seed
        ).fit(base)
        codes = model.encode(base)
        truth = ground_truth(base, queries, 10, metric="l2")
        found = hamming_neighbors(codes, model.encode(queries), 100, n_bits=n_bits)
        some = slice(0, 5000)
        return {
            "recall10@100": recall(truth.ids, found.ids, k=10, n=100),
            "unexplained_variance": unexplained_variance(base[some], model.decode(codes[some])),
        }

    return context.measured(STORE, settings, measure)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall and error by decoder."""
    return [table_of(rows, ("set", "n_bits", "decoder"), ("recall10@100", "unexplained_variance"))]


EXPERIMENT = study(
    "decoders",
    title="Other decoders",
    question="Do decoders of two layers or for binary data find more than the Gaussian one? (The "
    "paper says, in passing, that they perform alike.)",
    setup=f"Recall10@100 by Hamming ranking of {N_ROWS:,} vectors, {SEEDS} seeds, all trained by "
    "the same general path, so that the decoder alone differs; the error is what decoding leaves "
    "of the variance.",
    run=run,
    draw=draw,
)
