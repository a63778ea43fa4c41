"""`sghash add`: vectors into a collection, block by block."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import open_rows, path_type, rows_options, rows_type
from sghash.cli.printing import show
from sghash.cli.rows_in import add_all, adding_options, open_collection, read_incoming
from sghash.errors import InvalidInput


@click.command(
    "add",
    epilog=examples(
        "sghash add photos more.npy",
        "sghash add photos more.npy --metadata more.csv --id-column name",
        "sghash add photos - --ids keys.txt --upsert < more.jsonl",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("vectors", type=rows_type)
@adding_options
@click.option("--upsert", is_flag=True, help="Replace rows whose id or key is there already.")
@rows_options
@json_option
def command(
    collection: Path,
    vectors: str,
    ids_file: str | None,
    metadata: str | None,
    id_column: str | None,
    as_keys: bool,
    upsert: bool,
    key: str | None,
    start: int,
    stop: int | None,
    as_json: bool,
) -> None:
    """Add VECTORS to COLLECTION; each block of them is on the disk before the next is read.

    VECTORS is a file, a folder of parts, a data set such as digits.base, or - for stdin. Line i of
    --ids and --metadata belongs to vector i; --start and --stop choose from all of them alike, so
    an interrupted command is continued with --start. Without ids, rows get the next numbers.
    """
    about = open_collection(collection).stats()
    width = about["width"]
    rows = open_rows(vectors, key=key)
    if rows.shape[1] != width:
        raise InvalidInput(
            f"{vectors} has vectors of {rows.shape[1]} numbers, {collection} holds {width}: "
            "add vectors of the same kind"
        )
    incoming = read_incoming(
        rows, ids_file=ids_file, metadata=metadata, id_column=id_column, as_keys=as_keys,
        start=start, stop=stop, kinds=about["columns"],
    )  # fmt: skip
    n_rows = add_all(collection, incoming, upsert=upsert, start=start)
    added = incoming.rows.shape[0]
    facts = {"collection": str(collection), "added": added, "rows": n_rows}
    what = "added or replaced" if upsert else "added"
    show(facts, f"{added} vectors {what}, {n_rows} rows: {collection}", as_json=as_json)
