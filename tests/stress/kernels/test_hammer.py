"""Kernels called from many threads answer right, with memory that shows its misuse.

For a long run, a million calls in a few minutes, use one of the environments below with
`hammer.py --calls 1000000 --threads 1 2 4 8 16 --pool 600 --all-widths`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HAMMER = Path(__file__).with_name("hammer.py")
_CHECKER = "libc_malloc_debug.so.0"
#: Settings of glibc's malloc; elsewhere they do nothing, and answers are compared all the same.
ENVIRONMENTS = {
    # All threads take from one pool, and what is freed is overwritten.
    "poisoned": {"MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "165"},
    # What is freed from a page on is taken out of the process: to touch it ends the process.
    "unmapped": {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_MMAP_MAX_": "65536"},
    # The lists of free memory are checked at every call.
    "checked": {"MALLOC_ARENA_MAX": "1", "MALLOC_CHECK_": "3", "LD_PRELOAD": _CHECKER},
}


def hammer(environment: str, *options: str) -> dict[str, int]:
    """What the program counted; it must not crash, nor find a wrong answer."""
    done = subprocess.run(
        [sys.executable, str(HAMMER), *options],
        env={**os.environ, **ENVIRONMENTS[environment]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr[-3000:])
    counts = json.loads(done.stdout)
    assert counts["wrong"] == 0
    assert all(kernel["calls"] > 0 for kernel in counts["by kernel"].values())
    return counts


def can_check() -> bool:
    """Whether the checking malloc is there: the loader complains if it is not."""
    environment = {**os.environ, "LD_PRELOAD": _CHECKER}
    done = subprocess.run(["true"], env=environment, capture_output=True, check=False)
    return sys.platform == "linux" and not done.stderr


@pytest.mark.parametrize(
    "environment", ["poisoned", pytest.param("unmapped", marks=pytest.mark.slow)]
)
def test_every_kernel_answers_right_from_many_threads(environment: str) -> None:
    counts = hammer(environment, "--calls", "1000", "--threads", "1", "4", "16")
    assert counts["calls"] >= 1000
    assert len(counts["by kernel"]) == 12


@pytest.mark.slow
def test_bit_slices_answer_right_from_many_threads() -> None:
    """They keep tables of their own, which were once freed while in use."""
    options = ("--only", "hamming sliced", "--pool", "400", "--calls", "1500", "--threads", "8")
    assert hammer("poisoned", *options)["calls"] >= 1500


@pytest.mark.slow
@pytest.mark.parametrize("environment", list(ENVIRONMENTS))
def test_many_calls_of_every_width_answer_right(environment: str) -> None:
    if environment == "checked" and not can_check():
        pytest.skip(f"this system has no {_CHECKER}")
    threads = ("--threads", "1", "2", "4", "8", "16")
    counts = hammer(environment, "--calls", "100000", *threads, "--pool", "600", "--all-widths")
    assert counts["calls"] >= 100_000
