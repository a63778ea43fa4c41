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
from sghash.index.file import is_index

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
    lines = [f"whole: {facts['kind']} of {counts}: {path}"]
    lines += [facts["advice"]] if "advice" in facts else []
    show(facts, lines, as_json=as_json)


def kind_of(path: Path) -> str:
    """Whether a path holds a collection, a model or an index, by the names of its files."""
    if not path.exists():
        raise BadFile(f"{path} does not exist: check the path")
    if not path.is_dir():
        check_readable(path)
        if not is_index(path):
            raise BadFile(f"{path} is no collection, model or index: give the path of one")
        return "index"
    if (path / "manifest.json").is_file():
        return "collection"
    if (path / "config.json").is_file():
        return "model"
    raise BadFile(f"{path} is neither a collection nor a model: it has no manifest, no config")


def _collection(path: Path) -> dict[str, Any]:
    with row_bar("verifying", unit="file") as bar:
        collection = sghash.Collection.open(path)
        found = collection.verify(callback=bar)
    return {
        "rows": found.n_rows,
        "deleted": found.n_deleted,
        "files": found.n_files,
        "bytes": found.n_bytes,
    } | advice_for(collection.stats())


def advice_for(stats: dict[str, Any]) -> dict[str, str]:
    """What to do about a collection that has files of an earlier format, if it has any."""
    if not stats["has_old_files"]:
        return {}
    return {
        "advice": "some files are of an earlier format: all is well, and Collection.compact() "
        "brings them up to date (sghash backup does so for a copy)"
    }


def _model(path: Path) -> dict[str, Any]:
    sghash.load_model(path)
    sizes = [entry.stat().st_size for entry in path.iterdir() if entry.is_file()]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _index(path: Path) -> dict[str, Any]:
    from sghash.index import load_index

    return {"rows": len(load_index(path)), "bytes": path.stat().st_size}


_CHECKS = {"collection": _collection, "model": _model, "index": _index}
