"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_Decorator = Callable[[Any], Any]

path_type = click.Path(path_type=Path)


def rows_options(function: Any) -> Any:
    """`--key`, `--start` and `--stop`: which table of a file, and which of its rows."""
    function = click.option("--stop", type=int, help="Row to stop before.")(function)
    function = click.option("--start", type=int, default=0, help="First row to take.")(function)
    return click.option("--key", help="Array, dataset or column, where a file holds several.")(
        function
    )


overwrite_option: _Decorator = click.option(
    "--overwrite", is_flag=True, help="Replace what is there already."
)
seed_option: _Decorator = click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of everything random."
)
