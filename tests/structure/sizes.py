"""How large things are: folders, files and functions of a source tree."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

FOLDER_LIMIT = 16
FILE_LIMIT = 400
FUNCTION_LIMIT = 40
# One verb or one format per file: these grow with what the project can do.
ONE_PER_FILE = ("cli/verbs", "data/readers")


class Place(NamedTuple):
    """Where something is, and how large it is."""

    where: str
    size: int


def source_files(src: Path) -> list[Path]:
    """Every Python file below `src`, in a fixed order."""
    return sorted(src.rglob("*.py"))


def folders(src: Path) -> list[Place]:
    """Python files per folder, `__init__` not counted, those with one thing per file left out."""
    package = src / "sghash"
    sizes: dict[str, int] = {}
    for file in source_files(package):
        folder = file.parent.relative_to(package).as_posix()
        if file.name != "__init__.py" and folder not in ONE_PER_FILE:
            sizes[folder] = sizes.get(folder, 0) + 1
    return _largest_first(sizes)


def files(src: Path) -> list[Place]:
    """Lines per file."""
    return _largest_first(
        {
            file.relative_to(src).as_posix(): file.read_text(encoding="utf-8").count("\n")
            for file in source_files(src)
        }
    )


def functions(src: Path) -> list[Place]:
    """Lines per function, decorators not counted."""
    sizes: dict[str, int] = {}
    for file in source_files(src):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                where = f"{file.relative_to(src).as_posix()}:{node.lineno} {node.name}"
                sizes[where] = node.end_lineno - node.lineno + 1
    return _largest_first(sizes)


def above(places: list[Place], limit: int) -> list[Place]:
    """Those that are larger than `limit`."""
    return [place for place in places if place.size > limit]


def _largest_first(sizes: dict[str, int]) -> list[Place]:
    places = [Place(where, size) for where, size in sizes.items()]
    return sorted(places, key=lambda place: (-place.size, place.where))
