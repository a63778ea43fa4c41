"""Private names that a file takes from elsewhere: `from x import _y`, `module._y`, `model._y`.

A name with one leading underscore belongs to the file that defines it. A file may use it on any
object (`index._held` in the file of the index), other files may not.
"""

from __future__ import annotations

import ast
from pathlib import Path

from sizes import source_files

# Public methods of every named tuple, whatever they look like.
_NAMED_TUPLES = {"_asdict", "_fields", "_field_defaults", "_make", "_replace"}
_OWN = {"self", "cls"}


def private_uses(src: Path) -> list[str]:
    """Each use of a private name of sghash in a file that does not define it."""
    uses = []
    for file in source_files(src):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        own = _defined(tree)
        for node in ast.walk(tree):
            name = _used(node)
            if name is not None and name not in own:
                uses.append(f"{file.relative_to(src).as_posix()}:{node.lineno} {name}")  # type: ignore[attr-defined]
    return uses


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _NAMED_TUPLES


def _used(node: ast.AST) -> str | None:
    """The private name that a node takes from elsewhere, if it does."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sghash":
        taken = [alias.name for alias in node.names if _is_private(alias.name)]
        return ", ".join(taken) or None
    if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
        return None
    on = node.value
    if isinstance(on, ast.Name) and on.id in _OWN:
        return None
    if isinstance(on, ast.Call) and isinstance(on.func, ast.Name) and on.func.id == "super":
        return None
    return node.attr


def _defined(tree: ast.AST) -> set[str]:
    """Private attributes of the classes that a file defines."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not _is_protocol(node):
            for part in node.body:
                names |= {part.name} if isinstance(part, ast.FunctionDef) else _stored(part)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in _OWN
        ):
            names.add(node.attr)
    return names


def _is_protocol(node: ast.ClassDef) -> bool:
    """Whether a class only describes objects of others: their names stay theirs."""
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def _stored(tree: ast.AST) -> set[str]:
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
