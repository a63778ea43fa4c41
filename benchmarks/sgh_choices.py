"""What each choice behind SGH's defaults does: recall beside ITQ's, on rows held out of the bases.

    python benchmarks/sgh_choices.py                       # all variants, eight cells (an hour)
    python benchmarks/sgh_choices.py --variants "SGH(goal='hamming')" --cells minilm-wordnet:128
    python benchmarks/sgh_choices.py --table-only          # only print what the rows file holds

The queries are 600 vectors drawn from those that are searched, which are taken out of them: the
queries that results are reported on play no part, so that defaults can be chosen here. Figures
are ratios of Recall10@100 to ITQ's, seed by seed, as geometric means. At most 100,000 vectors of a
set are used. Every run is appended to the rows file: interrupt at any time and call again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import sghash
from sghash.data.sources import ArraySource
from sghash.evaluation import format_model, format_table, hold_out, parse_model, read_rows
from sghash.evaluation.comparison import evaluate

CELLS = [
    "mnist:16",
    "sift-photos:32",
    "cifar10-gist:32",
    "glove100:16",
    "glove100:64",
    "minilm-wordnet:32",
    "mnist:128",
    "minilm-wordnet:128",
]
VARIANTS = [
    "SGH",
    "SGH(goal='hamming')",
    "SGH(goal='reconstruction')",
    "SGH(goal='reconstruction', gradient='exact')",
    "SGH(goal='reconstruction', gradient='straight-through')",
    "SGH(goal='reconstruction', kl_weight=1.0)",
    "SGH(gradient='approximate')",
    "SGH(kl_weight=0.0)",
    "SGH(kl_weight=1.0)",
    "SGH(recipe__init='random')",
    "SGH(learning_rate=0.003)",
    "SGH(learning_rate=0.03)",
    "SGH(neighbors=10)",
    "SGH(neighbors=10, recipe__pair_loss='bernoulli')",
    "SGH(neighbors=1)",
    "SGH(neighbors=50)",
    "SGH(neighbors=10, recipe__pair_weight=10.0)",
    "SGH(neighbors=10, recipe__pair_weight=400.0)",
    "SGH(neighbors=10, n_steps=3000)",
    "SGH.paper",
]
N_QUERIES, MAX_VECTORS, RIVAL = 600, 100_000, "ITQ"


def main() -> None:
    options = read_options()
    if not options.table_only:
        for cell in options.cells:
            measure(cell, [RIVAL, *options.variants], options)
    found = values_of(read_rows(options.rows), options.seeds)
    print(table(found, options))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="SET:BITS")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=2, help="how many seeds, counted from 0")
    parser.add_argument("--rows", type=Path, default=Path("build/sgh_choices.jsonl"))
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


def measure(cell: str, models: list[str], options: argparse.Namespace) -> None:
    name, bits = cell.split(":")
    data = sghash.load_dataset(name)
    base = np.asarray(data.base.read(0, data.base.shape[0]))
    chosen = np.random.default_rng(7).permutation(len(base))[:MAX_VECTORS]
    vectors, queries = hold_out(base[np.sort(chosen)], N_QUERIES, random_state=7)
    print(f"{cell}: {vectors.shape[0]} vectors", file=sys.stderr)
    evaluate(
        sghash.data.DataSet(name, vectors, ArraySource(queries), data.metric),
        models=models,
        n_bits=[int(bits)],
        depths=(100,),
        wanted_recall=1.0,
        seeds=range(options.seeds),
        rows=options.rows,
        callback=lambda step: print(f"{cell}: next {step.following}", file=sys.stderr),
    )


def values_of(rows: list[dict], n_seeds: int) -> dict[tuple[str, str], dict[int, float]]:
    """Recall by (set and bits, model) and seed."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row["seed"] < n_seeds:
            key = (f"{row['dataset']}:{row['n_bits']}", format_model(row["model"], row["asked"]))
            found.setdefault(key, {})[row["seed"]] = row["values"]["recall10@100"]
    return found


def table(found: dict[tuple[str, str], dict[int, float]], options: argparse.Namespace) -> str:
    lines = []
    for text in options.variants:
        model = format_model(*parse_model(text))
        ratios = {cell: ratio(found, cell, model) for cell in options.cells}
        known = [r for r in ratios.values() if r is not None]
        mean = f"{np.exp(np.mean(np.log(known))):.3f}" if len(known) == len(ratios) else ""
        lines.append([text, *("" if r is None else f"{r:.3f}" for r in ratios.values()), mean])
    return format_table(["model", *options.cells, "mean"], lines, markdown=True)


def ratio(found: dict[tuple[str, str], dict[int, float]], cell: str, model: str) -> float | None:
    """Geometric mean over the seeds that both have."""
    ours, rival = found.get((cell, model), {}), found.get((cell, RIVAL), {})
    both = sorted(ours.keys() & rival.keys())
    if not both:
        return None
    return float(np.exp(np.mean([np.log(ours[s] / rival[s]) for s in both])))


if __name__ == "__main__":
    main()
