"""`sghash verify`: is everything on the disk as it was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import sghash
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import show
from sghash.cli.progress import row_bar
from sghash.cli.streams import check_readable
from sghash.errors import BadFile

_NOUNS = {"rows": "rows", "deleted": "deleted rows", "files": "files", "bytes": "bytes"}


@click.command(
    "verify",
    epilog=examples(
        "sghash verify photos",
    ),
)
@click.argument("path", type=path_type)
@json_option
def command(path: Path, as_json: bool) -> None:
    """Read all of PATH (a collection, a model folder or an index file) and check every byte.

    Ends with exit code 1 and names the first file that is damaged.
    """
    facts = {"path": str(path), "kind": kind_of(path)} | _CHECKS[kind_of(path)](path)
    counts = ", ".join(f"{facts[name]} {noun}" for name, noun in _NOUNS.items() if name in facts)
    show(facts, f"whole: {facts['kind']} of {counts}: {path}", as_json=as_json)


def kind_of(path: Path) -> str:
    """Whether a path holds a collection, a model or an index, by the names of its files."""
    if not path.exists():
        raise BadFile(f"{path} does not exist: check the path")
    if not path.is_dir():
        check_readable(path)
        return "index"
    if (path / "manifest.json").is_file():
        return "collection"
    if (path / "config.json").is_file():
        return "model"
    raise BadFile(f"{path} is neither a collection nor a model: it has no manifest, no config")


def _collection(path: Path) -> dict[str, Any]:
    with row_bar("verifying", unit="file") as bar:
        found = sghash.Collection.open(path).verify(callback=bar)
    return {
        "rows": found.n_rows,
        "deleted": found.n_deleted,
        "files": found.n_files,
        "bytes": found.n_bytes,
    }


def _model(path: Path) -> dict[str, Any]:
    sghash.load_model(path)
    sizes = [entry.stat().st_size for entry in path.iterdir() if entry.is_file()]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _index(path: Path) -> dict[str, Any]:
    index = sghash.HammingIndex.load(path)
    return {"rows": len(index), "bytes": path.stat().st_size}


_CHECKS = {"collection": _collection, "model": _model, "index": _index}
