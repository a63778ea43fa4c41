"""Recall of models on data sets, by code length, with intervals over seeds and times.

    python benchmarks/recall_table.py                      # the whole table (hours on two cores)
    python benchmarks/recall_table.py --quick              # built-in data, one minute, for a look
    python benchmarks/recall_table.py --datasets mnist --models SGH "LSH(center=False)" --bits 64
    python benchmarks/recall_table.py --table-only         # only print what the rows file holds
    python benchmarks/recall_table.py --table-only --expected   # with ties broken at random

Behind the tables stand the ratios of every model to ITQ: recall by cell, with an interval from
the seeds of both, training time, and geometric means over cells.

Every run is appended to the rows file when it is finished: interrupt at any time and call again.
Data sets are looked for in the folder SGHASH_DATA. Models learn from the vectors that are
searched; queries are never learned from. Times depend on the machine: read their ratios.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

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
from sghash.evaluation.summary import Summary
from sghash.models import model_class

DATASETS = ["mnist", "sift-photos", "cifar10-gist", "glove100", "minilm-wordnet"]
MODELS = ["SGH", "SGH(neighbors=10)", "SGH.paper", "ITQ", "LSH", "PCAHashing", "SignHashing"]
RIVAL = "ITQ"
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
        run_all(runs, bench, rows=options.rows, callback=Reporter(label))
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
    parts += ratios(rows, datasets, names[1])
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


def ratios(rows: list[dict[str, Any]], datasets: list[str], name: str) -> list[str]:
    """Ratios of `name` to the rival's, one table per length, and geometric means over cells."""
    found = {
        (s.group["dataset"], s.group["n_bits"], format_model(s.group["model"], s.group["asked"])): s
        for s in summarize(rows)
    }
    models = sorted({model for *_, model in found} - {RIVAL})
    lengths = sorted({bits for _, bits, _ in found})
    if not any(model == RIVAL for *_, model in found) or not models:
        return []
    lines: list[list[str]] = []
    for model in models:
        by_length: dict[int, list[Ratio]] = {}
        for bits in lengths:
            pairs = [(found.get((d, bits, model)), found.get((d, bits, RIVAL))) for d in datasets]
            values = [ratio(a, b, name) if a and b else None for a, b in pairs]
            by_length[bits] = [value for value in values if value]
            cells = ["" if value is None else value.text() for value in values]
            whole = len(by_length[bits]) == len(datasets)
            lines.append([model, str(bits), *cells, mean_of(by_length[bits]) if whole else ""])
        short = [value for bits in lengths if bits <= 64 for value in by_length[bits]]
        if len(short) == len(datasets) * sum(bits <= 64 for bits in lengths):
            label = f"{lengths[0]} to 64"
            lines.append([model, label, *("" for _ in datasets), mean_of(short)])
    table = format_table(["model", "bits", *datasets, "mean"], lines, markdown=True)
    return [f"## Ratios of {name} to {RIVAL}'s (in brackets: of training time)", "", table, ""]


class Ratio(NamedTuple):
    """A ratio of means, half of its 95 % interval, and the ratio of training times."""

    value: float
    half_width: float
    seconds: float

    def text(self) -> str:
        return f"{self.value:.3f} ± {self.half_width:.3f} ({self.seconds:.2g})"


def ratio(ours: Summary, rival: Summary, name: str) -> Ratio:
    """Of independent means: the relative half-widths add in squares."""
    a, b = ours.values[name], rival.values[name]
    relative = math.hypot((a.half_width or 0) / a.mean, (b.half_width or 0) / b.mean)
    times = [s.values["train_seconds"].mean for s in (ours, rival)]
    return Ratio(a.mean / b.mean, a.mean / b.mean * relative, times[0] / times[1])


def mean_of(values: list[Ratio]) -> str:
    """Geometric mean with half of its interval."""
    mean = math.exp(sum(math.log(v.value) for v in values) / len(values))
    spread = math.sqrt(sum((v.half_width / v.value) ** 2 for v in values)) / len(values)
    return f"{mean:.3f} ± {mean * spread:.3f}"


def recall_cell(mean: float, half_width: float | None) -> str:
    return f"{mean:.4f}" + ("" if half_width is None else f" ± {half_width:.4f}")


def origin(rows: list[dict[str, Any]]) -> list[str]:
    revisions = sorted({str(row["revision"]) for row in rows})
    machines = sorted({f"{r['machine']['processor']}, {r['machine']['cores']} cores" for r in rows})
    versions = sorted(
        {", ".join(f"{name} {v}" for name, v in sorted(row["versions"].items())) for row in rows}
    )
    return [
        "",
        f"`python benchmarks/recall_table.py`, seeds 0 to {max(row['seed'] for row in rows)}, "
        f"with {'; '.join(versions)}.",
        "",
        f"Revisions: {', '.join(revisions)}. Machines: {'; '.join(machines)}. "
        f"Written between {min(r['written'] for r in rows)} and {max(r['written'] for r in rows)}.",
    ]


if __name__ == "__main__":
    main()
