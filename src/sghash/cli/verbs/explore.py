"""`sghash explore`: look at a collection, in a browser or as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import path_type
from sghash.cli.printing import say, show
from sghash.cli.rows_in import open_collection
from sghash.collection import Collection
from sghash.errors import InvalidInput


@click.command(
    "explore",
    epilog=examples(
        "sghash explore photos",
        "sghash explore photos --export photos.html",
        "sghash explore photos --images ~/pictures",
        "sghash explore photos --atlas photos.parquet",
    ),
)
@click.argument("collection", type=path_type)
@click.option("--export", type=path_type, metavar="FILE", help="Write one HTML file instead.")
@click.option(
    "--atlas", type=path_type, metavar="FILE", help="Write Parquet for Embedding Atlas instead."
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    help="The most rows that --export puts into its file; 5,000 unless you say.",
)
@click.option(
    "--images",
    type=path_type,
    help="Folder of the files that the image column names; the collection's own unless you say.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 is any free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, open nothing.")
@json_option
def command(
    collection: Path,
    export: Path | None,
    atlas: Path | None,
    rows: int | None,
    images: Path | None,
    host: str,
    port: int,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Show COLLECTION in a browser: neighbours, what each bit means, a map, recall against bytes.

    Runs a small server until Ctrl-C (extra `serve`). With --export everything stands in one HTML
    file that needs no server and no extra.
    """
    if rows is not None and export is None:
        raise InvalidInput("--rows has no use here: it says how many rows --export takes")
    opened = open_collection(collection)
    name = collection.resolve().name
    folder = images or collection.resolve().parent
    if export is not None or atlas is not None:
        _write(opened, name, export, atlas, rows, folder, as_json)
        return
    from sghash.serve.explorer.local import explore

    def said(address: str) -> None:
        facts = {"collection": str(collection), "address": address}
        show(facts, f"explorer of {collection}: {address} (Ctrl-C ends it)", as_json=as_json)

    explore(
        {name: opened}, host=host, port=port, images={name: folder}, browse=not no_browser,
        said=said,
    )  # fmt: skip


def _write(
    opened: Collection, name: str, export: Path | None, atlas: Path | None, rows: int | None,
    folder: Path, as_json: bool,
) -> None:  # fmt: skip
    from sghash.serve.explorer.atlas import write_atlas
    from sghash.serve.explorer.export import MOST_ROWS, Given, write_export

    facts: dict[str, Any] = {"rows": len(opened)}
    lines = []
    if export is not None:
        say("drawing ...", err=True)
        given = Given(opened, images=folder)
        done = write_export(export, {name: given}, most_rows=rows or MOST_ROWS)
        facts |= {"export": str(export), "exported_rows": done.n_rows, "bytes": done.n_bytes}
        part = _part(done.n_rows, done.n_all)
        lines.append(f"{export}: {part}, {done.n_bytes / 1e6:.1f} MB; open it in a browser")
    if atlas is not None:
        table = write_atlas(opened, atlas)
        facts |= {"rows": table.n_all, "atlas": str(atlas), "atlas_rows": table.n_rows}
        part = _part(table.n_rows, table.n_all)
        lines.append(
            f"{atlas}: {part}; embedding-atlas {atlas} --x projection_x --y projection_y "
            "--neighbors neighbors"
        )
    show(facts, lines, as_json=as_json)


def _part(n_rows: int, n_all: int) -> str:
    return f"all {n_all} rows" if n_rows == n_all else f"{n_rows} of {n_all} rows"
