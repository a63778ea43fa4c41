"""A stranger's first minutes: clone into a folder with a space, run the commands."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_demo_and_wheel_from_a_fresh_clone(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    clone = tmp_path / "a folder with spaces"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "SGH"))}

    def make(target):
        started = time.monotonic()
        out = subprocess.run(
            ["make", target], cwd=clone, capture_output=True, text=True, env=environment
        )
        assert out.returncode == 0, out.stdout + out.stderr
        return out.stdout, time.monotonic() - started

    listing, _ = make("help")
    assert "make demo" in listing and "make test" in listing
    first, _ = make("demo")
    second, seconds = make("demo")
    assert "recall10@10" in first and "recall10@10" in second
    assert seconds < 60
    wheel, _ = make("wheel")
    assert "recall10@10" in wheel
