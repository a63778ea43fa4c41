"""Adding vectors to a collection: what `add` and `create` share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from sghash.cli.inputs import rows_type
from sghash.cli.metadata import ids_of, read_ids, read_metadata
from sghash.cli.printing import say
from sghash.cli.progress import row_bar
from sghash.collection import Collection
from sghash.data.sources import RowSource
from sghash.errors import InvalidInput, MissingData, SghashError


class Incoming(NamedTuple):
    """Vectors, and for each of them an id or key (None: the next number) and metadata."""

    rows: RowSource
    ids: list[int] | list[str] | None
    columns: dict[str, Any]


def open_collection(path: Path, *, writable: bool = False) -> Collection:
    """Open a collection that must be there; a folder that is none gets no writer's lock."""
    if not path.exists():
        raise MissingData(f"there is no collection {path}: make it with sghash create")
    opened = Collection.open(path)
    if not writable:
        return opened
    opened.close()
    return Collection.open(path, writable=True)


def adding_options(function: Any) -> Any:
    """`--ids`, `--metadata`, `--id-column` and `--as-keys`."""
    for decorate in (
        click.option("--as-keys", is_flag=True, help="Ids are string keys, even whole numbers."),
        click.option("--id-column", help="Column of --metadata that holds the ids or keys."),
        click.option(
            "--metadata", type=rows_type,
            help="Columns to store: .csv, .tsv, .jsonl or .parquet, a row per vector; digits.base.",
        ),
        click.option(
            "--ids", "ids_file", type=rows_type,
            help="Ids (whole numbers) or string keys, one per line; or a .npy of whole numbers.",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


def read_incoming(
    rows: RowSource,
    *,
    ids_file: str | None,
    metadata: str | None,
    id_column: str | None,
    as_keys: bool,
    start: int,
    stop: int | None,
    kinds: Mapping[str, str] | None = None,
) -> Incoming:
    """Read what belongs to `rows`, the whole source, and take rows `start` to `stop` - 1 of all.

    `kinds` are those of the columns that the collection has already.
    """
    if id_column is not None and (metadata is None or ids_file is not None):
        raise InvalidInput("--id-column names a column of --metadata, and replaces --ids")
    if as_keys and id_column is None and ids_file is None:
        raise InvalidInput("--as-keys says how to take --ids or --id-column: give one of them")
    columns = {} if metadata is None else read_metadata(metadata, kinds)
    ids = None if ids_file is None else read_ids(ids_file, as_keys=as_keys)
    if id_column is not None:
        if id_column not in columns:
            known = ", ".join(columns) or "none"
            raise InvalidInput(f"{metadata} has no column {id_column!r}: the columns are {known}")
        ids = ids_of(columns.pop(id_column), f"{metadata}, {id_column}", as_keys=as_keys)
    n = rows.shape[0]
    given: list[tuple[str, Any]] = [("--ids", ids)] if ids is not None else []
    for name, values in [*given, *columns.items()]:
        if len(values) != n:
            raise InvalidInput(f"{name}: {len(values)} values for {n} vectors: give one per vector")
    chosen = rows if start == 0 and stop is None else rows.rows(start, stop)
    last = start + chosen.shape[0]
    return Incoming(
        chosen,
        None if ids is None else ids[start:last],
        {name: values[start:last].for_storage() for name, values in columns.items()},
    )


def add_all(path: Path, incoming: Incoming, *, upsert: bool, start: int) -> int:
    """Add block by block, each durable; return the number of rows there are then.

    Where it fails or is interrupted, say how far it came and how to continue.
    """
    if upsert and incoming.ids is None:
        raise InvalidInput("--upsert replaces rows by their id: give --ids or --id-column")
    n, done = incoming.rows.shape[0], 0
    collection = open_collection(path, writable=True)
    before = len(collection)

    def report(rows_done: int, rows_in_all: int) -> None:
        nonlocal done
        done = rows_done
        bar(rows_done, rows_in_all)

    try:
        with collection, row_bar("adding") as bar:
            if upsert:
                collection.upsert(
                    incoming.rows, incoming.ids or [], incoming.columns, callback=report
                )
            else:
                collection.add(incoming.rows, incoming.ids, incoming.columns, callback=report)
            return len(collection)
    except BaseException:
        # The disk knows better than a count that may have been cut off, if it can be asked.
        added = done
        with suppress(SghashError, OSError):
            if not upsert:
                with Collection.open(path) as there:
                    added = len(there) - before
        if added:
            say(
                f"{added} of {n} vectors are in {path}; for the others run the command "
                f"sghash add with the same files and --start {start + added}",
                err=True,
            )
        raise
