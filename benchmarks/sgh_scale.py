"""Rows rescaled by random factors: what happens to codes and recall, invariant and plain.

    SGHASH_DATA=... python benchmarks/sgh_scale.py [--bits 32 64] [--seeds 3] [--rows 20000]
    SGHASH_DATA=... python benchmarks/sgh_scale.py --held-out --spreads 0.02 0.05 0.1 0.3 1

Factors are log-uniform in [0.1, 10], one per row, for base and queries. "agreement" is the share of
bits that a model trained on the rows as they are gives the same before and after rescaling;
"recall" is Recall10@100 by Hamming ranking with the cosine neighbours as truth, of a model trained
and asked with the rows as they are, and of one trained and asked with rescaled rows. "error" is
the squared error of decoding rescaled rows, as a share of their squares: from codes alone at the
prior mean, and with the scales kept. `--held-out` asks with rows of the base that are left out
instead of with the queries: there the prior's spread is chosen.
"""

from __future__ import annotations

import argparse

import numpy as np

import sghash
from sghash import ITQ, SGH
from sghash.evaluation import format_table, ground_truth
from sghash.evaluation.metrics import recall
from sghash.kernels import hamming_neighbors
from sghash.models import ScaleInvariantSGH

MODELS = {
    "ITQ": lambda n, seed: ITQ(n_bits=n, random_state=seed),
    "SGH, plain": lambda n, seed: SGH(n_bits=n, random_state=seed),
    "SGH on unit rows (cosine)": lambda n, seed: SGH(n_bits=n, metric="cosine", random_state=seed),
    "ScaleInvariantSGH": lambda n, seed: ScaleInvariantSGH(n_bits=n, random_state=seed),
}


def of_spreads(spreads: list[float]) -> dict:
    return {
        f"scale_spread={spread:g}": lambda n, seed, spread=spread: ScaleInvariantSGH(
            n_bits=n, scale_spread=spread, random_state=seed
        )
        for spread in spreads
    }


def factors(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.uniform(np.log(0.1), np.log(10), (n, 1))).astype(np.float32)


def recall_of(model, base, queries, truth) -> float:
    found = hamming_neighbors(model.encode(base), model.encode(queries), 100, n_bits=model.n_bits)
    return recall(truth.ids, found.ids, k=10, n=100)


def measure(make, n_bits, seed, base, queries, truth) -> list[float]:
    rng = np.random.default_rng(seed)
    scaled = base * factors(len(base), rng)
    scaled_queries = queries * factors(len(queries), rng)
    model = make(n_bits, seed).fit(base)
    agreement = float((model.transform(base) == model.transform(scaled)).mean())
    before = recall_of(model, base, queries, truth)
    model = make(n_bits, seed).fit(scaled)
    after = recall_of(model, scaled, scaled_queries, truth)
    codes, energy = model.encode(scaled), float(np.square(scaled).sum())
    alone = kept = float("nan")
    if not isinstance(model, SGH) or model.metric != "cosine":  # which decodes to unit rows
        alone = float(np.square(scaled - model.decode(codes)).sum()) / energy
    if isinstance(model, ScaleInvariantSGH):
        back = model.decode(codes, scales=model.scales(scaled))
        kept = float(np.square(scaled - back).sum()) / energy
    return [agreement, before, after, alone, kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bits", nargs="+", type=int, default=[32, 64])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--datasets", nargs="+", default=["mnist", "minilm-wordnet"])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--spreads", nargs="+", type=float)
    options = parser.parse_args()
    models = MODELS if options.spreads is None else of_spreads(options.spreads)
    lines = []
    for name in options.datasets:
        data = sghash.load_dataset(name)
        base = np.asarray(data.base.read(0, options.rows), dtype=np.float32)
        asked = data.base.read(options.rows, options.rows + 500)
        if not options.held_out:
            asked = np.asarray(data.queries)[:500]
        queries = np.asarray(asked, dtype=np.float32)
        truth = ground_truth(base, queries, 10, metric="cosine")
        for n_bits in options.bits:
            for label, make in models.items():
                runs = [
                    measure(make, n_bits, seed, base, queries, truth)
                    for seed in range(options.seeds)
                ]
                means = np.mean(runs, axis=0)
                cells = ["" if np.isnan(mean) else f"{mean:.3f}" for mean in means]
                lines.append([name, str(n_bits), label, *cells])
                print(*lines[-1], flush=True)
    headings = [
        "data", "bits", "model", "agreement", "recall as is", "recall rescaled",
        "error, codes alone", "error, scales kept",
    ]  # fmt: skip
    print(format_table(headings, lines, markdown=True))


if __name__ == "__main__":
    main()
