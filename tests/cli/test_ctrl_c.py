"""Ctrl-C is heard during a long search, with one thread and with several."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys
import numpy as np
from sghash.kernels import hamming_neighbors
rng = np.random.default_rng(0)
codes = rng.integers(0, 256, (2_000_000, 8), dtype=np.uint8)
queries = rng.integers(0, 256, (20_000, 8), dtype=np.uint8)
hamming_neighbors(codes[:9000], queries[:100], 10, n_bits=64, threads=int(sys.argv[1]))
print("searching", flush=True)
try:
    hamming_neighbors(codes, queries, 10, n_bits=64, threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_search_can_be_interrupted(threads):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(threads)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "searching"
        time.sleep(0.5)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline().strip() == "interrupted"
        assert time.monotonic() - started < 5
