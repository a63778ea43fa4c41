"""Where a result comes from: versions, revision of the source, machine."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import sghash
from sghash.validation import available_cores

_PACKAGES = ("numpy", "numba", "scikit-learn", "scipy")


@functools.cache
def provenance() -> dict[str, Any]:
    """What every row says of its origin."""
    versions = {"python": platform.python_version(), "sghash": sghash.__version__}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    machine = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": available_cores(),
    }
    return {
        "versions": versions,
        "revision": revision(),
        "source": source_tree(),
        "machine": machine,
    }


def revision() -> str | None:
    """The last commit of the source this runs from, "-dirty" if it was changed since, or None.

    Commits of rows and pages leave it as it is: what a run measures before and after is the same.
    """
    if (checkout := _checkout()) is None:
        return None
    commit = _git(checkout, "log", "-1", "--format=%H", "--", "src")
    changed = _git(checkout, "status", "--porcelain", "--", "src")
    return f"{commit}-dirty" if commit and changed else commit


def source_tree() -> str | None:
    """What git calls the content of the source at its last commit, or None.

    Commits get other names when they are rebased; `git rev-parse <commit>:src` stays what it was.
    """
    checkout = _checkout()
    return None if checkout is None else _git(checkout, "rev-parse", "--verify", "HEAD:src")


def _checkout() -> Path | None:
    package = Path(sghash.__file__).resolve().parent
    checkout = package.parent.parent
    # An installed package may lie inside somebody else's repository: that commit says nothing.
    is_source = package.parent.name == "src" and (checkout / ".git").exists()
    return checkout if is_source else None


def _git(checkout: Path, *words: str) -> str | None:
    """What git answers, or None if it says nothing or cannot."""
    command = ["git", "-C", str(checkout), *words]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            names = [line.split(":", 1)[1].strip() for line in stream if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
