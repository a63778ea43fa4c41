"""`sghash delete`: rows out of a collection."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.metadata import ids_of, read_ids
from sghash.cli.printing import show
from sghash.cli.rows_in import open_collection
from sghash.cli.streams import STDIO
from sghash.errors import InvalidInput


@click.command(
    "delete",
    epilog=examples(
        "sghash delete photos 12 13",
        "sghash delete photos cat.jpg",
        "sghash delete photos - < ids.txt",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("ids", nargs=-1, required=True)
@click.option("--as-keys", is_flag=True, help="Take whole numbers as string keys, too.")
@click.option("--compact", is_flag=True, help="Then write the rest anew, to free the space.")
@json_option
def command(
    collection: Path, ids: tuple[str, ...], as_keys: bool, compact: bool, as_json: bool
) -> None:
    """Delete the rows with these IDS or keys from COLLECTION: all of them, or none.

    Whole numbers are ids, anything else is a key; - reads them from stdin, one per line. All other
    rows keep their ids.
    """
    if STDIO in ids:
        if len(ids) > 1:
            raise InvalidInput("give either ids or -, which reads them from stdin")
        chosen = read_ids(STDIO, as_keys=as_keys)
    else:
        chosen = ids_of(list(ids), "the command line", as_keys=as_keys)
    with open_collection(collection, writable=True) as opened:
        before = len(opened)
        opened.delete(chosen)
        if compact:
            opened.compact()
        facts = {
            "collection": str(collection),
            "deleted": before - len(opened),
            "rows": len(opened),
        }
    text = f"{facts['deleted']} rows deleted, {facts['rows']} left: {collection}"
    show(facts, text, as_json=as_json)
