"""Training beside iterative quantization: processor time, and recall by Hamming distance.

    SGHASH_DATA=... python benchmarks/training.py --store rows.jsonl [--seeds 5] [--bits 16 32 64]
    ... training.py --validation     # queries are rows held out of the base: for choices
    ... training.py --half           # learn from a half; recall on it and on the other half
    ... training.py --long           # 256 to 1024 bits on MiniLM
    ... training.py --rivals         # every method of the paper, 8 to 64 bits
    ... training.py --quick          # built-in data, seconds: does it run?

The models of a seed are fitted in turns in one process, kept to one core and one thread. Times are
processor seconds, the median over seeds; ratios of recall are paired by seed, ± is half of the
95 % interval of their mean, means over sets are geometric. What was stored with the same settings
is not run again, so use a new file for another version of the code. `--rivals` takes the rivals'
rows from docs/results/rows, measures those that are missing there and our own, and keeps them as
hashing.jsonl in the folder of `--store`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring.fits import Plan, digits_rows, fit_rows
from measuring.rivals import LENGTHS as RIVAL_LENGTHS, cells_of, told
from measuring.splits import QUICK_SETS, SETS
from measuring.tables import tables
from measuring.targets import (
    DEFAULT,
    LONG,
    LONG_SET,
    MODELS,
    RECALL,
    SEEN,
    UNSEEN,
    USUAL,
    judged,
    judged_digits,
    judged_halves,
    judged_long,
)

from sghash.experiments.experiment import Context, Row
from sghash.experiments.hashing import RIVALS, hashing_rows, known_models
from sghash.experiments.sets import GIST, MNIST, SIFT, TEXTS, WORDS

STORED = Path(__file__).resolve().parents[1] / "docs" / "results" / "rows"
#: As the stored rows name them.
RIVAL_SETS = {"MNIST": MNIST, "SIFT": SIFT, "GIST": GIST, "GloVe": WORDS, "MiniLM": TEXTS}


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", help=", ".join(SETS))
    parser.add_argument("--bits", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="+", help="ITQ is always among them")
    parser.add_argument("--rows", type=int, help="at most so many rows of every set")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store", type=Path, help="file.jsonl that rows are kept in")
    parser.add_argument("--validation", action="store_true", help="queries out of the base")
    parser.add_argument("--half", action="store_true", help="learn from half of the base")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--long", action="store_true", help=f"{LONG} bits on {LONG_SET}")
    kind.add_argument("--rivals", action="store_true", help="beside all methods of the paper")
    parser.add_argument("--quick", action="store_true", help="small built-in data")
    options = parser.parse_args(arguments)
    if options.store is not None and options.store.suffix != ".jsonl":
        parser.error(f"--store is a file that ends in .jsonl, got {options.store}")
    if options.rivals and (options.validation or options.half):
        parser.error("--rivals asks the reported queries of whole sets: leave out the others")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """Sets, lengths and models: those that were named, else those that the targets speak of."""
    if options.quick:
        sets, bits = list(QUICK_SETS.values()), [16]
    elif options.rivals:
        sets, bits = [RIVAL_SETS[name] for name in options.sets or RIVAL_SETS], list(RIVAL_LENGTHS)
    else:
        names = options.sets or ([LONG_SET] if options.long else SETS)
        sets, bits = [SETS[name] for name in names], list(LONG if options.long else USUAL)
    if options.rows is not None:
        sets = [which._replace(n_vectors=min(which.n_vectors, options.rows)) for which in sets]
    models = (DEFAULT, *RIVALS) if options.rivals else ("ITQ", DEFAULT) if options.long else MODELS
    asked = list(dict.fromkeys(["ITQ", *(options.models or models)]))
    return Plan(
        sets,
        options.bits or bits,
        asked,
        min(options.seeds, 2) if options.quick else options.seeds,
        options.validation,
        options.half,
        options.threads,
    )


def report(rows: Sequence[Row], digits: Sequence[Row], plan: Plan, *, is_long: bool) -> list[str]:
    """Tables, then a line per target."""
    lines = tables(rows, (SEEN, UNSEEN) if plan.half else (RECALL, "recall100@100"))
    if is_long:
        return [*lines, "", *judged_long(rows)]
    if plan.half:
        return [*lines, "", *judged_halves(rows, plan.models)]
    return [*lines, "", *judged(rows, plan.models), *judged_digits(digits)]


def rival_rows(context: Context, plan: Plan) -> list[Row]:
    """Our own rows, measured by this code, and the rivals', known from earlier where they are."""
    # A stored row of ours names the same options, and may be of another training.
    ours = hashing_rows(context, plan.sets, [DEFAULT], plan.lengths)
    rivals = [model for model in plan.models if model != DEFAULT]
    known = replace(context, also=(STORED,))
    return [*ours, *hashing_rows(known, plan.sets, rivals, plan.lengths)]


def main() -> None:
    options = parsed()
    plan = plan_of(options)
    left_out = set(plan.models) - set(known_models(plan.models))
    if left_out:
        print(f"this version has no {', '.join(sorted(left_out))}: left out")
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder) / "rows.jsonl"
        context = Context(
            path.parent,
            quick=options.quick,
            seeds=plan.seeds,
            threads=plan.threads,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        if options.rivals:
            rows = rival_rows(context, plan)
            print("\n".join([*_origin(rows), *told(cells_of(rows))]))
            return
        rows = fit_rows(context, path.stem, plan)
        is_usual = not (options.long or options.half)
        own = plan._replace(models=[DEFAULT])
        digits = digits_rows(context, path.stem, own) if is_usual else []
    if options.quick:
        print("quick: built-in data, the verdicts mean nothing")
    print("\n".join([*_origin(rows), *report(rows, digits, plan, is_long=options.long)]))


def _origin(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Of which versions of the code and when: rows of several cannot be compared by time."""
    revisions = sorted({str(row["revision"]) for row in rows})
    written = [row["written"] for row in rows]
    return [
        f"{len(rows)} rows of revision {', '.join(revisions)}, {min(written)} to {max(written)}"
    ]


if __name__ == "__main__":
    main()
