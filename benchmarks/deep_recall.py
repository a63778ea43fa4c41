"""DeepSGH with neighbours beside ITQ: Recall10@100 by Hamming ranking, and what encoding costs.

    pip install 'sghash[torch]'
    SGHASH_DATA=... python benchmarks/deep_recall.py [--seeds 1] [--bits 16 32] [--steps 1000]

Options are the defaults for all data sets. Every run is appended to the rows file when it is
finished: interrupt at any time and call again. The last line is the geometric mean of the ratios,
with its target. Encode cost is the time per vector of `encode` for the base in one call, and
depends on the machine: read the ratio.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import sghash
from sghash import ITQ
from sghash.evaluation import Bench, append_row, format_table, read_rows, truth_folder
from sghash.evaluation.metrics import recall
from sghash.evaluation.provenance import provenance
from sghash.kernels import hamming_neighbors
from sghash.models import DeepSGH

DATASETS = ["mnist", "sift-photos", "cifar10-gist", "glove100", "minilm-wordnet"]
TARGET = 1.3


def measure(model, bench: Bench) -> dict[str, float]:
    start = time.perf_counter()
    model.fit(bench.base)
    trained = time.perf_counter()
    codes = model.encode(bench.base)
    encoded = time.perf_counter()
    found = hamming_neighbors(codes, model.encode(bench.queries), 100, n_bits=model.n_bits)
    return {
        "recall": recall(bench.truth.ids, found.ids, k=10, n=100),
        "train_seconds": trained - start,
        "encode_microseconds": 1e6 * (encoded - trained) / len(codes),
    }


def key_of(row: dict) -> tuple:
    return tuple(row[name] for name in ("dataset", "model", "n_bits", "seed", "n_steps"))


def run(options: argparse.Namespace) -> None:
    done = {key_of(row) for row in read_rows(options.rows)}
    for dataset in options.datasets:
        bench = None
        for n_bits in options.bits:
            for seed in range(options.seeds):
                for name in ("ITQ", "DeepSGH"):
                    row = {
                        "dataset": dataset, "model": name, "n_bits": n_bits, "seed": seed,
                        "n_steps": options.steps if name == "DeepSGH" else 0,
                    }  # fmt: skip
                    if key_of(row) in done:
                        continue
                    if bench is None:
                        data = sghash.load_dataset(dataset)
                        bench = Bench(data, depths=(100,), cache=truth_folder())
                    if name == "ITQ":
                        model = ITQ(n_bits=n_bits, random_state=seed)
                    else:
                        model = DeepSGH(
                            n_bits=n_bits, metric=bench.data.metric, n_steps=options.steps,
                            random_state=seed,
                        )  # fmt: skip
                    values = measure(model, bench)
                    print(row, values, flush=True)
                    append_row(options.rows, {**row, "values": values, **provenance()})


def report(options: argparse.Namespace) -> str:
    lines, ratios, costs = [], [], []
    rows = [row for row in read_rows(options.rows) if row["n_steps"] in (0, options.steps)]
    for dataset in options.datasets:
        for n_bits in options.bits:
            here = [r for r in rows if (r["dataset"], r["n_bits"]) == (dataset, n_bits)]
            means = {}
            for name in ("ITQ", "DeepSGH"):
                own = [row["values"] for row in here if row["model"] == name]
                if own:
                    means[name] = {key: np.mean([v[key] for v in own]) for key in own[0]}
            if len(means) < 2:
                continue
            itq, deep = means["ITQ"], means["DeepSGH"]
            ratios.append(deep["recall"] / itq["recall"])
            costs.append(deep["encode_microseconds"] / itq["encode_microseconds"])
            lines.append(
                [dataset, str(n_bits), f"{itq['recall']:.3f}", f"{deep['recall']:.3f}",
                 f"{ratios[-1]:.3f}", f"{itq['encode_microseconds']:.1f}",
                 f"{deep['encode_microseconds']:.1f}", f"{deep['train_seconds']:.0f}"]
            )  # fmt: skip
    if not lines:
        return "no finished pair of runs yet"
    mean = float(np.exp(np.mean(np.log(ratios))))
    cost = float(np.exp(np.mean(np.log(costs))))
    headings = [
        "data", "bits", "ITQ", "DeepSGH", "ratio", "ITQ encode µs", "DeepSGH encode µs", "train s",
    ]  # fmt: skip
    n_cells = len(options.datasets) * len(options.bits)
    verdict = "met" if mean >= TARGET else "MISSED"
    if len(ratios) < n_cells:
        verdict = f"no verdict before all {n_cells} are there"
    return (
        format_table(headings, lines, markdown=True)
        + f"\n\ngeometric mean of {len(ratios)} ratios: {mean:.3f}, target >= {TARGET}: {verdict}; "
        f"encoding costs {cost:.1f} times ITQ's"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=DeepSGH().n_steps)
    parser.add_argument("--rows", type=Path, default=Path("build/deep_recall.jsonl"))
    parser.add_argument("--table-only", action="store_true")
    options = parser.parse_args()
    if not options.table_only:
        run(options)
    print(report(options))


if __name__ == "__main__":
    main()
