"""`sghash info`: what a folder or file holds, or what this installation can do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from pathlib import Path
from typing import Any

import click

import sghash
from sghash.cli.frame import json_option, show
from sghash.errors import BadFile
from sghash.evaluation.tables import format_table
from sghash.validation import available_cores

EXTRAS = {
    "faiss": "faiss",
    "hdf5": "h5py",
    "parquet": "pyarrow",
    "plots": "matplotlib",
    "torch": "torch",
}
CORE = ("numpy", "numba", "scikit-learn", "safetensors", "click", "tqdm")


@click.command(
    "info",
    epilog="Examples:\n\n  sghash info                 this installation\n\n"
    "  sghash info my-model --json",
)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@json_option
def command(path: Path | None, as_json: bool) -> None:
    """Tell what PATH (a model folder or an index file) is; without PATH, this installation."""
    facts = _installation() if path is None else _describe(path)
    show(facts, format_table(("what", "value"), list(_flat(facts))), as_json=as_json)


def _installation() -> dict[str, Any]:
    return {
        "sghash": sghash.__version__,
        "python": platform.python_version(),
        "cores": available_cores(),
        "packages": {name: importlib.metadata.version(name) for name in CORE},
        "extras": {
            extra: "installed"
            if importlib.util.find_spec(module)
            else f"pip install 'sghash[{extra}]'"
            for extra, module in EXTRAS.items()
        },
    }


def _describe(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise BadFile(f"{path} does not exist")
    if path.is_dir():
        model = sghash.load_model(path)
        return {
            "kind": "model",
            "class": type(model).__name__,
            "n_bits": model.n_bits,
            "dimensions": int(model.n_features_in_),
            "fingerprint": model.fingerprint_,
        }
    index = sghash.HammingIndex.load(path, mmap=True)
    return {"kind": "index", "n_bits": index.n_bits, "codes": len(index), "bytes": index.nbytes}


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name} ")
        else:
            rows.append((prefix + name, str(value)))
    return rows
