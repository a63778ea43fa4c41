"""Stress a collection: random programs, faults of every kind, everything compared in full.

    python tests/stress/run.py --seed 1 --events 2000 --jobs 2
    python tests/stress/run.py --seed 1000007 --replay        one program again, event by event

Kills come by the clock, so that a program may go another way when it is run again. Therefore an
event at which something was wrong is kept with the collection as it was before, to be repeated
alone: `--kept FOLDER --times 50`.

Prints counts as JSON and as a table. Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "collection" / "storage")]

import program as programs  # noqa: E402
import sabotage  # noqa: E402
from actors import Child, kind_and_text  # noqa: E402
from crashing import shrink_limits  # noqa: E402
from pool import shrink_blocks, warm_up  # noqa: E402
from reference import Fault  # noqa: E402

PROGRAMS = 1_000_000  # programs of one seed: the seed of a program is seed * PROGRAMS + its number
KEPT = Path(tempfile.gettempdir()) / "sghash-stress-faults"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=500, help="stop after so many")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side")
    parser.add_argument("--replay", action="store_true", help="run the program of this seed only")
    parser.add_argument("--times", type=int, default=1, help="with --replay: how often")
    parser.add_argument("--kept", type=Path, help="with --replay: an event that was kept")
    parser.add_argument("--faults", type=int, default=20, help="stop a job after so many faults")
    parser.add_argument("--only", help="kinds of events, with commas")
    parser.add_argument("--break", dest="broken", choices=sorted(sabotage.WAYS), default=None,
                        help="break the collection on purpose: the run must notice")  # fmt: skip
    return parser.parse_args()


def run_program(seed, kinds, *, verbose=False, kept=None):
    """Counts of one program, or of one event that was kept, and what was wrong if anything."""
    program = programs.Program(seed, kinds=kinds, verbose=verbose)
    fault = None
    try:
        if kept is None:
            program.run()
        else:
            program.resume(kept)
    except Exception as error:
        known = isinstance(error, Fault)
        kind, text = (error.kind, error.text) if known else kind_and_text(error)
        place = KEPT / f"{seed}-{program.number}"
        if kept is None:
            program.keep(place)
        fault = (kind, f"event {program.event}: {text}", seed, str(kept or place))
    finally:
        program.close()
    program.counts["programs"] += 1
    return program.counts, fault


def work(job, options, kinds, end):
    """Programs number `job`, `job` + jobs, ... until enough has happened."""

    def run(tell):
        done, n_faults, number = 0, 0, job
        while done < options.events / options.jobs and n_faults < options.faults:
            if end is not None and time.monotonic() > end:
                break
            counts, fault = run_program(options.seed * PROGRAMS + number, kinds)
            done += max(1, counts["events"])
            n_faults += fault is not None
            tell(("program", dict(counts), fault))
            number += options.jobs

    return run


def replay(options, kinds):
    counts, faults = Counter(), []
    for _ in range(options.times):
        some, fault = run_program(options.seed, kinds, verbose=True, kept=options.kept)
        counts.update(some)
        if fault is not None:
            faults.append(fault)
            break
    return counts, faults


def run_all(options, kinds):
    """Let all jobs work; return all counts and faults."""
    end = None if options.seconds is None else time.monotonic() + options.seconds
    children = [Child(work(job, options, kinds, end), "/dev/null") for job in range(options.jobs)]
    counts, faults, waiting, told = Counter(), [], list(children), time.monotonic()
    while waiting:
        waiting = [child for child in waiting if not child.read(0.3)]
        for child in children:
            for message in child.messages:
                if message[0] == "fault":
                    faults.append((message[1], message[2], 0, ""))
                else:
                    counts.update(message[1])
                    faults += [message[2]] * (message[2] is not None)
            child.messages.clear()
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{counts['events']} events, {len(faults)} faults", file=sys.stderr, flush=True)
    return counts, faults


def report(counts, faults, options, seconds):
    """Print everything; return the exit code."""
    kinds = Counter(fault[0] for fault in faults)
    table = {name: counts[name] for name in sorted(counts)}
    for name, n in [*table.items(), ("raw errors", kinds["raw error"]), ("faults", len(faults))]:
        print(f"{name:<40}{n:>10}")
    for kind, n in sorted(kinds.items()):
        print(f"FAULT {kind:<34}{n:>10}")
    for kind, text, seed, kept in faults:
        only = f" --only {options.only}" if options.only else ""
        again = f"python tests/stress/run.py --seed {seed} --replay{only}"
        print(f"\nFAULT {kind}: {text}\nagain: {again}\nthis event alone: {again} --kept {kept}")
    print()
    print(json.dumps({"seed": options.seed, "seconds": round(seconds, 1), "counts": table,
                      "raw errors": kinds["raw error"], "faults": kinds}))  # fmt: skip
    return 1 if faults else 0


def main():
    options = arguments()
    kinds = None
    if options.only:
        wanted = options.only.split(",")
        kinds = {kind: n for kind, n in programs.KINDS.items() if kind.__name__ in wanted}
    shrink_limits()
    shrink_blocks()
    warm_up()
    if options.broken is not None:
        sabotage.WAYS[options.broken]()
    gc.collect()
    gc.freeze()
    start = time.monotonic()
    run = replay if options.replay else run_all
    counts, faults = run(options, kinds)
    return report(counts, faults, options, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
