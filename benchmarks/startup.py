"""How many CPU seconds pass before the first answer: in Python, and of a command in a shell.

    python benchmarks/startup.py [--runs 5] [--rerank none]

A small collection is made in a temporary folder and searched once, so that all caches are filled.
Then every figure is the least of some fresh processes: other programs can only add to it. Beside
each stands what may not be exceeded; the exit code is 1 if it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# CPU seconds beyond Python itself until the first answer, and of a whole `sghash search`.
MOST_IN_PYTHON, MOST_OF_COMMAND = 0.9, 1.0

# Prints the CPU seconds at each step, and which heavy packages were loaded by then.
PROGRAM = """
import time
moments = [time.process_time()]
import numpy as np
moments.append(time.process_time())
from sghash import Collection
moments.append(time.process_time())
collection = Collection.open({folder!r})
moments.append(time.process_time())
collection.search(np.load({queries!r}), 3, rerank={rerank!r})
moments.append(time.process_time())
import sys
heavy = ["numba", "pandas", "scipy", "sklearn"]
print(*moments, "|", *[name for name in heavy if name in sys.modules])
"""
STEPS = ("Python itself", "NumPy", "import sghash", "Collection.open", "first search")


def make_collection(folder: Path) -> tuple[str, str]:
    """A collection of 5,000 rows with kept vectors, and three queries."""
    import sghash

    vectors = np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32)
    model = sghash.SGH(64, n_steps=100, random_state=0).fit(vectors)
    with sghash.Collection.create(folder / "rows", model, keep_vectors="float16") as made:
        made.add(vectors)
        for rerank in ("none", "decoder", "vectors"):
            made.search(vectors[:3], 3, rerank=rerank)
    np.save(folder / "queries.npy", vectors[:3])
    return str(folder / "rows"), str(folder / "queries.npy")


def steps_of(program: str) -> tuple[list[float], str]:
    """CPU seconds of each step in a fresh process, and the heavy packages it has loaded."""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    numbers, _, heavy = out.stdout.partition("|")
    moments = [0.0, *map(float, numbers.split())]
    return np.diff(moments).tolist(), heavy.strip() or "none"


def seconds_of(command: list[str]) -> float:
    """CPU seconds of a whole process, as the system counts them."""
    before = os.times()
    subprocess.run(command, capture_output=True, check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rerank", default="none", choices=["none", "decoder", "vectors"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, queries = make_collection(Path(name))
        program = PROGRAM.format(folder=folder, queries=queries, rerank=given.rerank)
        command = [sys.executable, "-m", "sghash", "search", folder, queries, "--k", "3"]
        command += ["--rerank", given.rerank]
        steps_of(program), seconds_of(command)
        runs = [steps_of(program) for _ in range(given.runs)]
        of_command = min(seconds_of(command) for _ in range(given.runs))
    steps, heavy = min(runs, key=lambda run: sum(run[0]))
    print(f"CPU seconds, the least of {given.runs} fresh processes, rerank={given.rerank}")
    for step, seconds in zip(STEPS, steps, strict=True):
        print(f"  {step:28}{seconds:6.3f}")
    beyond = sum(steps[1:])
    print(f"  {'beyond Python itself':28}{beyond:6.3f}   at most {MOST_IN_PYTHON}")
    print(f"  {'sghash search, in all':28}{of_command:6.3f}   at most {MOST_OF_COMMAND}")
    print(f"  heavy packages loaded: {heavy}")
    sys.exit(beyond > MOST_IN_PYTHON or of_command > MOST_OF_COMMAND)


if __name__ == "__main__":
    main()
