"""Call kernels from many threads at once and compare every answer; print counts as JSON.

    python tests/stress/kernels/hammer.py --calls 1000000 --threads 1 2 4 8 16 --all-widths

A memory fault shows as a wrong answer or a crash, most surely with glibc's malloc set to poison
or unmap what is freed: see `ENVIRONMENTS` in test_hammer.py.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
from cases import ALL_BITS, QUICK_BITS, Case, make_pool

from sghash.kernels.tables import best_rows

best_rows.WORTH_A_THREAD = 1  # threads share even the few rows of these cases


def agrees(case: Case, found: Any) -> bool:
    if not case.close:
        return all(map(np.array_equal, found, case.expected))
    return all(
        np.allclose(got, wanted, rtol=1e-5, atol=1e-5)
        for got, wanted in zip(found, case.expected, strict=True)
    )


def warmed(pool: list[Case]) -> tuple[Counter, Any]:
    """Wrong answers of one thread alone, and how likely each case should be drawn.

    Compiles one by one, so that threads meet in the kernels and not in the compiler. Cases that
    take long are drawn less often, each about as much of the time as any other.
    """
    wrong, shares = Counter(), []
    for case in pool:
        wrong[case.kernel] += not agrees(case, case.call())
        start = time.perf_counter()
        wrong[case.kernel] += not agrees(case, case.call())
        shares.append(1 / (time.perf_counter() - start + 1e-4))
    return wrong, np.asarray(shares) / sum(shares)


def work(
    pool: list[Case], shares: Any, seed: int, n_calls: int, calls: Counter, wrong: Counter
) -> None:
    """Draw cases at random; an exception counts as a wrong answer and is shown."""
    order = np.random.default_rng(seed).choice(len(pool), n_calls, p=shares)
    for i in order.tolist():
        case = pool[i]
        calls[case.kernel] += 1
        try:
            right = agrees(case, case.call())
        except Exception as error:
            print(f"{case.kernel}: {error!r}", file=sys.stderr)
            right = False
        if not right:
            wrong[case.kernel] += 1


def hammer(
    pool: list[Case], shares: Any, n_calls: int, n_threads: int, seed: int
) -> tuple[Counter, Counter]:
    """Make `n_calls` calls from `n_threads` threads: calls and wrong answers by kernel."""
    counts = [(Counter(), Counter()) for _ in range(n_threads)]
    threads = []
    for i, (calls, wrong) in enumerate(counts):
        share = n_calls * (i + 1) // n_threads - n_calls * i // n_threads
        given = (pool, shares, seed + 1000 * n_threads + i, share, calls, wrong)
        threads.append(threading.Thread(target=work, args=given))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum((c for c, _ in counts), Counter()), sum((w for _, w in counts), Counter())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=3000, help="calls in all")
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1, 4, 16], help="one after other"
    )
    parser.add_argument("--pool", type=int, default=200, help="different cases")
    parser.add_argument("--only", default="", help="kernels whose name begins so")
    parser.add_argument("--all-widths", action="store_true", help="1 bit to 520 bytes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.enable()
    sys.setswitchinterval(1e-4)
    start = time.perf_counter()
    widths = ALL_BITS if options.all_widths else QUICK_BITS
    pool = make_pool(options.seed, options.pool, widths)
    pool = [case for case in pool if case.kernel.startswith(options.only)]
    wrong, shares = warmed(pool)
    ready = time.perf_counter()
    calls = Counter(case.kernel for case in pool for _ in range(2))
    for i, n_threads in enumerate(options.threads):
        n = len(options.threads)
        share = options.calls * (i + 1) // n - options.calls * i // n
        more, missed = hammer(pool, shares, share, n_threads, options.seed)
        calls, wrong = calls + more, wrong + missed
    kernels = {name: {"calls": calls[name], "wrong": wrong[name]} for name in sorted(calls)}
    found = {
        "calls": calls.total(),
        "wrong": wrong.total(),
        "threads": options.threads,
        "by kernel": kernels,
        "seconds": round(time.perf_counter() - ready, 1),
        "seconds before": round(ready - start, 1),
    }
    print(json.dumps(found, indent=2))
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
