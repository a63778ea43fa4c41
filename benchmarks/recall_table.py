"""Recall of models on data sets, by code length, with intervals over seeds and times.

    python benchmarks/recall_table.py                      # the whole table (hours on two cores)
    python benchmarks/recall_table.py --quick              # built-in data, one minute, for a look
    python benchmarks/recall_table.py --datasets mnist --models SGH "LSH(center=False)" --bits 64
    python benchmarks/recall_table.py --table-only         # only print what the rows file holds
    python benchmarks/recall_table.py --table-only --expected   # with ties broken at random

Every run is appended to the rows file when it is finished: interrupt at any time and call again.
Data sets are looked for in the folder SGHASH_DATA. Models learn from the vectors that are
searched; queries are never learned from. Times depend on the machine: read their ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sghash
from sghash.evaluation import (
    Bench,
    Run,
    RunProgress,
    definitions,
    format_model,
    format_table,
    parse_model,
    read_rows,
    run_all,
    summarize,
    truth_folder,
)
from sghash.models import model_class

DATASETS = ["mnist", "sift-photos", "cifar10-gist", "glove100", "minilm-wordnet"]
MODELS = ["SGH", "SGH.paper", "ITQ", "LSH", "PCAHashing", "SignHashing"]
BITS = [16, 32, 64, 128]
DEPTHS = (10, 100, 1000)


def main() -> None:
    options = read_options()
    if options.quick:
        options.datasets, options.bits, options.seeds = ["digits"], [16, 32], 2
    if not options.table_only:
        try:
            measure(options)
        except KeyboardInterrupt:
            sys.exit(f"interrupted: what is done stands in {options.rows}; call again to go on")
    rows = [row for row in read_rows(options.rows) if is_wanted(row, options)]
    if not rows:
        sys.exit(f"{options.rows} holds no rows of these data sets, models and lengths yet")
    print(report(rows, options.datasets, "expected_recall" if options.expected else "recall"))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME")
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL")
    parser.add_argument("--bits", nargs="+", type=int, default=BITS, metavar="N")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, counted from 0")
    parser.add_argument("--rows", type=Path, default=Path("build/recall_table.jsonl"))
    parser.add_argument("--threads", type=int, help="for searching (default: all cores)")
    parser.add_argument(
        "--expected", action="store_true", help="print the recall expected if ties fell at random"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> None:
    """Do all runs that the rows file lacks, one data set after the other."""
    runs = list(all_runs(options))
    start = time.perf_counter()
    for number, name in enumerate(options.datasets):
        print(f"{name}: reading, and computing the true neighbours once", file=sys.stderr)
        bench = Bench(
            sghash.load_dataset(name), depths=DEPTHS, threads=options.threads, cache=truth_folder()
        )
        label = f"{name} ({number + 1} of {len(options.datasets)} data sets)"
        run_all(runs, bench, rows=options.rows, progress=Reporter(label))
    print(f"measured in {time.perf_counter() - start:.0f} s", file=sys.stderr)


def all_runs(options: argparse.Namespace) -> Iterable[Run]:
    for text in options.models:
        model, asked = parse_model(text)
        known = model_class(model.partition(".")[0])().get_params(deep=False)
        # A model without randomness gives the same codes for every seed.
        seeds = range(options.seeds) if "random_state" in known else [0]
        for n_bits in options.bits:
            yield from (Run(model, n_bits, seed, asked) for seed in seeds)


class Reporter:
    """Lines on stderr: what is done, what comes next, and how long the rest takes."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __call__(self, step: RunProgress) -> None:
        left = "" if step.seconds_left is None else f", about {step.seconds_left:.0f} s left"
        what = f", next {step.following}" if step.following else ""
        print(f"{self.label}: {step.done} of {step.total} runs{left}{what}", file=sys.stderr)


def is_wanted(row: dict[str, Any], options: argparse.Namespace) -> bool:
    texts = {format_model(*parse_model(text)) for text in options.models}
    return (
        row["dataset"] in options.datasets
        and format_model(row["model"], row["asked"]) in texts
        and row["n_bits"] in options.bits
        and row["seed"] < options.seeds
        and row["depths"] == list(DEPTHS)
    )


def report(rows: list[dict[str, Any]], datasets: list[str], measured: str) -> str:
    """One Markdown table per data set, then what was measured and with what."""
    names = [f"{measured}{rows[0]['k']}@{n}" for n in DEPTHS]
    parts = ["# Recall of binary codes", ""]
    for dataset in datasets:
        here = [row for row in rows if row["dataset"] == dataset]
        if not here:
            continue
        first = here[0]
        parts += [
            f"## {dataset}",
            "",
            f"{first['n_vectors']:,} vectors of {first['width']} numbers, "
            f"{first['n_queries']:,} queries, metric {first['metric']}, "
            f"checksum {first['checksum'][:12]}.",
            "",
            table(here, names),
            "",
        ]
    parts += ["Mean over seeds ± half of the 95 % interval of the mean (Student).", ""]
    parts += [f"- {line}" for line in definitions(names).splitlines()]
    return "\n".join([*parts, *origin(rows)])


def table(rows: list[dict[str, Any]], names: list[str]) -> str:
    headings = ["model", "bits", *names, "train s", "encode s", "seeds"]
    found = sorted(summarize(rows), key=lambda summary: summary.group["n_bits"])
    cells = []
    for group, values in found:
        recalls = [values[name] for name in names]
        cells.append(
            [
                format_model(group["model"], group["asked"]),
                str(group["n_bits"]),
                *(recall_cell(value.mean, value.half_width) for value in recalls),
                f"{values['train_seconds'].mean:.2f}",
                f"{values['encode_seconds'].mean:.2f}",
                str(recalls[0].n),
            ]
        )
    return format_table(headings, cells, markdown=True)


def recall_cell(mean: float, half_width: float | None) -> str:
    return f"{mean:.4f}" + ("" if half_width is None else f" ± {half_width:.4f}")


def origin(rows: list[dict[str, Any]]) -> list[str]:
    revisions = sorted({str(row["revision"]) for row in rows})
    machines = sorted({f"{r['machine']['processor']}, {r['machine']['cores']} cores" for r in rows})
    return [
        "",
        f"Revisions: {', '.join(revisions)}. Machines: {'; '.join(machines)}. "
        f"Written between {min(r['written'] for r in rows)} and {max(r['written'] for r in rows)}.",
    ]


if __name__ == "__main__":
    main()
