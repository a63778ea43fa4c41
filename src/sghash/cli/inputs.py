"""Arguments and options that several verbs share, and what they open."""

from __future__ import annotations

import difflib
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from sghash.cli.argument_types import RowsName, TargetName
from sghash.cli.streams import STDIO, open_stdin
from sghash.data import ending_of, open_vectors
from sghash.data.sources import RowSource
from sghash.errors import InvalidInput, MissingData

_Decorator = Callable[[Any], Any]

path_type = click.Path(path_type=Path)
rows_type = RowsName()
target_type = TargetName()
#: Which side of a data set `NAME.part` is.
PARTS = ("base", "queries")
MAX_SEED = 2**32 - 1


class DataPart(NamedTuple):
    """One side of a data set, written as in `digits.base` or `glove100.queries`."""

    name: str
    part: str


def data_part(text: str) -> DataPart | None:
    """Read `NAME.base` or `NAME.queries`; None for anything else, and for a file of that name."""
    name, _, part = text.rpartition(".")
    if part not in PARTS or name not in dataset_names() or Path(text).exists():
        return None
    return DataPart(name, part)


def dataset_names() -> list[str]:
    """All data sets that have a name: those that need no file first."""
    from sghash.data import CATALOG
    from sghash.data.loading import BUILT_IN

    return [*BUILT_IN, *sorted(CATALOG)]


def metric_of(text: str | None) -> str:
    """What makes vectors neighbours by default: a data set knows, else l2."""
    from sghash.data import CATALOG
    from sghash.data.loading import BUILT_IN

    chosen = None if text is None else data_part(text)
    if chosen is None:
        return "l2"
    name = chosen.name
    return CATALOG[name].metric if name in CATALOG else BUILT_IN[name]().metric


def load_named(name: str) -> Any:
    """The data set of this name; a download shows how far it is."""
    import sghash
    from sghash.cli.progress import byte_bar

    with byte_bar(f"fetching {name}") as bar:
        return sghash.load_dataset(name, callback=bar)


def open_rows(
    text: str, *, key: str | None = None, start: int = 0, stop: int | None = None
) -> RowSource:
    """Vectors of a file, of a folder of parts, of a data set (`digits.base`) or from stdin."""
    chosen = data_part(text)
    if chosen is None and text != STDIO:
        if not os.path.exists(text) and text in dataset_names():
            raise InvalidInput(f"{text} is a data set: say {text}.base or {text}.queries")
        _refuse_absent(text)
        return open_vectors(text, key=key, start=start, stop=stop)
    if chosen is None:
        source = open_stdin(key)
    elif key is not None:
        raise InvalidInput(f"{text} is one table and takes no key, got {key!r}")
    else:
        source = getattr(load_named(chosen.name), chosen.part)
    return source if start == 0 and stop is None else source.rows(start, stop)


def _refuse_absent(text: str) -> None:
    """Say that there is no such file, and what may have been meant."""
    if os.path.lexists(text):
        return
    shown = textwrap.shorten(text, 80, placeholder=" ...") if len(text) > 80 else text
    parts = [f"{name}.{part}" for name in dataset_names() for part in PARTS]
    near = difflib.get_close_matches(text, parts, n=1, cutoff=0.75)
    if near:
        raise MissingData(f"there is no file {shown}: did you mean {near[0]}?")
    if ending_of(text) is None:
        raise MissingData(
            f"there is no file {shown}: vectors come from files (or from stdin, by -); a text must "
            "first be embedded by the model that made the rows"
        )


key_option: _Decorator = click.option(
    "--key", help="Array, dataset or column, where a file holds several."
)


def rows_options(function: Any) -> Any:
    """`--key`, `--start` and `--stop`: which table of a file, and which of its rows."""
    row = click.IntRange(min=0)
    function = click.option("--stop", type=row, metavar="N", help="Row to stop before.")(function)
    function = click.option("--start", type=row, metavar="N", default=0, help="First row to take.")(
        function
    )
    return key_option(function)


overwrite_option: _Decorator = click.option(
    "--overwrite", is_flag=True, help="Replace what is there already."
)
seed_option: _Decorator = click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of everything random.",
)
threads_option: _Decorator = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Threads for searching; all cores if not given.",
)
