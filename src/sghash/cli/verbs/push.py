"""`sghash push`: the codes of a collection to a database."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import AddressCommand, examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import show
from sghash.cli.progress import row_bar
from sghash.cli.rows_in import open_collection


@click.command(
    "push",
    cls=AddressCommand,
    epilog=examples(
        "sghash push photos duckdb:photos.db",
        "sghash push photos postgresql://host/shop --table photo_codes",
        "sghash push photos sqlite:photos.db --dry-run",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("address")
@click.option("--table", default="codes", show_default=True, help="The table of codes.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
def command(collection: Path, address: str, table: str, dry_run: bool, as_json: bool) -> None:
    """Bring the codes of COLLECTION to a table at ADDRESS, which is made if it is not there.

    ADDRESS is postgresql://..., duckdb:FILE, sqlite:FILE, milvus:FILE.db or faiss:FILE. Rows that
    are there with the same code are passed over: the same command again goes on where it was
    interrupted. Only codes and their ids travel: keys and metadata do not, and rows of the table
    that the collection does not have stay.
    """
    from sghash.adapters.transfer import place_of, push

    place = place_of(address)
    with open_collection(collection, writable=False) as opened, row_bar("pushing") as bar:
        found = push(opened, place, table, dry_run=dry_run, callback=bar)
    facts = {"collection": str(collection), "table": table, "dry_run": dry_run, **found._asdict()}
    verb = "would be added" if dry_run else "added"
    text = (
        f"{found.added} rows {verb}, {found.changed} changed, {found.unchanged} there already: "
        f"table {table}"
    )
    show(facts, text, as_json=as_json)
