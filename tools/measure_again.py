"""Draw rows of docs/results at random, measure them anew, and compare all that is not a time.

python tools/measure_again.py --rows 24

Needs the real data, in the folder that SGHASH_DATA names. Ends with 1 where a value is another.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "rows"
# One row takes forty minutes; the others are about nothing but time.
LEFT_ALONE = ("streamed_recall", "training_time")
TIMES = ("seconds", "milliseconds", "cpu")


def main() -> None:
    """Print a line per drawn row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=24, help="how many rows are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing")
    options = parser.parse_args()
    kept = {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(RESULTS.glob("*.jsonl"))
    }
    places = [
        (store, row["key"]) for store in kept if store not in LEFT_ALONE for row in kept[store]
    ]
    drawn = set(random.Random(options.seed).sample(places, min(options.rows, len(places))))
    with tempfile.TemporaryDirectory() as folder:
        found = measured_without(Path(folder), drawn, kept)
    wrong = 0
    for store, rows in kept.items():
        for row in (row for row in rows if (store, row["key"]) in drawn):
            other = found.get((store, row["key"]))
            told = "no longer measured" if other is None else differences(row, other)
            wrong += bool(told)
            print(f"{described(store, row)}: {told or 'the same'}")
    print(f"{len(drawn) - wrong} of {len(drawn)} rows are the same, seed {options.seed}")
    sys.exit(wrong > 0)


def measured_without(
    folder: Path, drawn: set[tuple[str, str]], kept: dict[str, list[dict[str, Any]]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Measure what is missing from a copy of the rows, as `make figures` does."""
    shutil.copytree(RESULTS, folder / "results" / "rows")
    for store, rows in kept.items():
        left = [json.dumps(row) for row in rows if (store, row["key"]) not in drawn]
        text = "".join(line + "\n" for line in left)
        (folder / "results" / "rows" / f"{store}.jsonl").write_text(text)
    line = [sys.executable, "-m", "sghash", "reproduce", "all", "--rows-only", "--threads", "1"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [*line, "--out", str(folder)], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return {
        (path.stem, row["key"]): row
        for path in (folder / "results" / "rows").glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    }


def differences(row: dict[str, Any], other: dict[str, Any]) -> str:
    """Which values are others, with both where they are numbers; empty where none is."""
    told = []
    for name in sorted(row["values"].keys() | other["values"].keys()):
        left, right = row["values"].get(name), other["values"].get(name)
        if left != right and not any(word in name for word in TIMES):
            both = all(isinstance(value, int | float) for value in (left, right))
            told.append(f"{name} {left:.6g}, now {right:.6g}" if both else name)
    return "; ".join(told)


def described(store: str, row: dict[str, Any]) -> str:
    """A row in a few words."""
    settings = row["settings"]
    words = ("set", "model", "n_bits", "seed")
    return " ".join([store, *(str(settings[word]) for word in words if word in settings)])


if __name__ == "__main__":
    main()
