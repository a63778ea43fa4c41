"""Models written as text: "ITQ", "SGH.paper", "LSH(center=False)"."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sghash.errors import InvalidInput


class ModelSpec(NamedTuple):
    """A name in `MODELS`, perhaps with a preset, and the options to set."""

    model: str
    options: dict[str, Any]


def parse_model(text: str) -> ModelSpec:
    """Read a name with options in parentheses; values are Python literals."""
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call):
            if tree.args or any(keyword.arg is None for keyword in tree.keywords):
                raise ValueError("options need names")
            options = {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords}
            # As in a row: JSON knows lists, not tuples.
            return ModelSpec(_dotted(tree.func), json.loads(json.dumps(options)))
        return ModelSpec(_dotted(tree), {})
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise InvalidInput(
            f"expected a model as in 'ITQ', 'SGH.paper' or 'LSH(center=False)', got {text!r}"
        ) from error


def format_model(model: str, options: Mapping[str, Any]) -> str:
    """The text that `parse_model` reads back."""
    if not options:
        return model
    return f"{model}({', '.join(f'{name}={value!r}' for name, value in options.items())})"


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    raise ValueError("not a name")
