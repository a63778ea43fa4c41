"""`sghash backup`: a consistent copy of a collection, beside a working writer."""

from __future__ import annotations

from pathlib import Path

import click

import sghash
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import show
from sghash.cli.progress import row_bar


@click.command(
    "backup",
    epilog=examples(
        "sghash backup photos /backup/photos",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("folder", type=path_type)
@json_option
def command(collection: Path, folder: Path, as_json: bool) -> None:
    """Copy COLLECTION as it is at this moment to FOLDER, and verify the copy.

    Others may add, delete and search meanwhile. The same command again goes on where it was
    interrupted, or brings an earlier copy up to date.
    """
    opened = sghash.Collection.open(collection)
    with row_bar("copying", unit="row") as bar:
        found = opened.backup(folder, callback=bar)
    facts = {"path": str(folder), "rows": found.n_rows, "bytes": found.n_bytes}
    show(facts, f"copied and verified: {found.n_rows} rows to {folder}", as_json=as_json)
