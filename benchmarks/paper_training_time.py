"""The paper's training on SIFT beside ITQ: time to ITQ's training error, and the whole time.

    SGHASH_DATA=... python benchmarks/paper_training_time.py [--bits 8 16 32 64] [--seeds 3]
    python benchmarks/paper_training_time.py --quick     # built-in data: does it run?

Both learn from all rows, in turns, on one core and one thread; processor seconds, medians over
seeds. ITQ's error is that of its own decoder (its rotation at the best single scale, which the
paper speaks of) and of its fitted one (the least-squares map of `ITQ.decode`), on training rows.
`sghash reproduce training_time` judges the paper's claim by the same measurements.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from measuring.fits import on_threads
from measuring.verdicts import at_most, line

from sghash import ITQ, SGH
from sghash.experiments.hashing import warm_up_like
from sghash.experiments.sets import QUICK_CLUSTERS, SIFT, load
from sghash.experiments.timings import errors_of, time_to, timed_fit, watched_fit
from sghash.models.shared.least_squares import fit_linear_decoder

#: As a multiple of ITQ's time, by ITQ's own decoder.
TARGET = at_most(0.5)


def measured(rows: Any, n_bits: int, seed: int, n_steps: int) -> dict[str, float]:
    """ITQ's time, and the paper's as multiples of it."""
    itq = ITQ(n_bits=n_bits, random_state=seed)
    paper = SGH.paper(n_bits, n_steps=n_steps, random_state=seed)
    for model in (itq, paper):
        warm_up_like(model, rows.dtype)
    seconds = timed_fit(itq, rows)["cpu_seconds"]
    began = time.process_time()
    fit_linear_decoder(rows, np.asarray(itq.transform(rows), dtype=bool))
    decoder = (time.process_time() - began) / seconds
    errors = errors_of(itq, rows)
    whole = timed_fit(paper, rows)["cpu_seconds"]
    seen = watched_fit(SGH.paper(n_bits, n_steps=n_steps, random_state=seed), rows, n_steps)
    times = {
        name: time_to(seen["cpu_seen"], seen["error_seen"], error) / seconds
        for name, error in errors.items()
    }
    return {"itq": seconds, "decoder": decoder, "whole": whole / seconds, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    which = QUICK_CLUSTERS if options.quick else SIFT
    rows, n_steps = load(which).base, 500 if options.quick else 5000
    print(f"{which.label}: {len(rows):,} rows, {options.seeds} seeds; never is inf")
    with on_threads(1):
        for n_bits in options.bits:
            found = [measured(rows, n_bits, seed, n_steps) for seed in range(options.seeds)]
            middle = {name: statistics.median(one[name] for one in found) for name in found[0]}
            told = f"SGH.paper, {n_bits} bits"
            print(f"{told}: ITQ takes {middle['itq']:.2f} s of CPU")
            print(line(f"{told}: to own decoder's error / ITQ", middle["own_error"], TARGET))
            print(f"{told + ': to fitted decoder error / ITQ':<58} {middle['fitted_error']:8.3f}")
            print(f"{told + ': whole training / ITQ':<58} {middle['whole']:8.3f}", flush=True)
            print(
                f"{told + ': share of ITQ that is its fitted decoder':<58} {middle['decoder']:8.3f}"
            )


if __name__ == "__main__":
    main()
