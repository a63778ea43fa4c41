"""Valgrind sees no compiled kernel touch memory that is not its own, nor use unset bytes."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HAMMER = Path(__file__).with_name("hammer.py")
# Valgrind does not know AVX-512. Named outright, for code compiled outside to fit inside.
COMPILE_FOR = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt",
}
# A complaint whose innermost frame has no name: code that was compiled at run time.
COMPLAINT = re.compile(r"== (\S.*)\n==\d+==    at 0x[0-9A-F]+: \?\?\?\n")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for one kind of CPU")
def test_valgrind_has_no_complaint(tmp_path: Path) -> None:
    log = tmp_path / "log"
    kernels = [sys.executable, str(HAMMER), "--calls", "0", "--pool", "120"]
    environment = {
        **os.environ,
        **COMPILE_FOR,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONMALLOC": "malloc",
    }
    # Compiled first without valgrind, under which the compiler takes minutes.
    subprocess.run(kernels, env=environment, check=True, capture_output=True)
    watched = ["valgrind", "--error-limit=no", f"--log-file={log}", *kernels]
    subprocess.run(watched, env=environment, check=True, capture_output=True)
    report = log.read_text()
    assert "ERROR SUMMARY" in report
    assert not COMPLAINT.findall(report)
