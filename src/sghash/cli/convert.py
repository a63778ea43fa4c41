"""`sghash convert`: the same vectors in another file format."""

from __future__ import annotations

from pathlib import Path

import click

import sghash
from sghash.cli.frame import json_option, show
from sghash.cli.inputs import overwrite_option, path_type, rows_options
from sghash.cli.progress import row_bar


@click.command(
    "convert",
    epilog="Examples:\n\n  sghash convert base.fvecs base.npy\n\n"
    "  sghash convert glove.hdf5 queries.parquet --key test",
)
@click.argument("source", type=path_type)
@click.argument("target", type=path_type)
@click.option("--dtype", help="Type of the written numbers; numbers that do not fit are refused.")
@rows_options
@overwrite_option
@json_option
def command(
    source: Path,
    target: Path,
    dtype: str | None,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the vectors of SOURCE to TARGET; the ending of its name chooses the format."""
    with row_bar("converting") as bar:
        written = sghash.convert(
            source, target, key=key, start=start, stop=stop, dtype=dtype, overwrite=overwrite,
            progress=bar,
        )  # fmt: skip
    n, width = written.shape
    facts = {"target": str(target), "n": n, "dimensions": width, "dtype": str(written.dtype)}
    show(facts, f"{n} vectors of {width} numbers ({written.dtype}): {target}", as_json=as_json)
