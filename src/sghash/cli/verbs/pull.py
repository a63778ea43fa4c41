"""`sghash pull`: codes from a database to a collection."""

from __future__ import annotations

from pathlib import Path

import click

import sghash
from sghash.cli.frame import AddressCommand, examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import show
from sghash.cli.progress import row_bar
from sghash.cli.rows_in import open_collection
from sghash.errors import InvalidInput


@click.command(
    "pull",
    cls=AddressCommand,
    epilog=examples(
        "sghash pull duckdb:photos.db photos --model photo-model",
        "sghash pull postgresql://host/shop photos --table photo_codes",
    ),
)
@click.argument("address")
@click.argument("collection", type=path_type)
@click.option("--table", default="codes", show_default=True, help="The table of codes.")
@click.option("--model", type=path_type, help="The model of the codes, for a new collection.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
def command(
    address: str, collection: Path, table: str, model: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Bring the codes of a table at ADDRESS to COLLECTION, which is made if it is not there.

    ADDRESS is what `push` takes. Rows that are there with another code get that of the table; the
    same command again goes on where it was interrupted. Only codes and their ids travel: keys and
    metadata do not, and rows that the table does not have stay.
    """
    from sghash.adapters.transfer import Transferred, open_place, place_of, pull

    place, found = place_of(address), None
    if not collection.exists():
        if model is None:
            raise InvalidInput(f"there is no collection {collection} yet: give its --model")
        loaded = sghash.load_model(model)
        with open_place(place, table, fingerprint=loaded.fingerprint_) as index:
            if dry_run:
                found = Transferred(len(index), 0, 0)
        if not dry_run:
            sghash.Collection.create(collection, loaded).close()
    if found is None:
        with open_collection(collection, writable=not dry_run) as opened, row_bar("pulling") as bar:
            found = pull(place, table, opened, dry_run=dry_run, callback=bar)
    facts = {"collection": str(collection), "table": table, "dry_run": dry_run, **found._asdict()}
    verb = "would be added" if dry_run else "added"
    text = (
        f"{found.added} rows {verb}, {found.changed} changed, {found.unchanged} there already: "
        f"{collection}"
    )
    show(facts, text, as_json=as_json)
