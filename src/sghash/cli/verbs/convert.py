"""`sghash convert`: the same vectors in another file format."""

from __future__ import annotations

import click

from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import open_rows, overwrite_option, rows_options, rows_type, target_type
from sghash.cli.printing import show
from sghash.cli.streams import STDIO, write_rows


@click.command(
    "convert",
    epilog=examples(
        "sghash convert base.fvecs base.npy",
        "sghash convert glove.hdf5 queries.parquet --key test",
        "sghash convert digits.base digits.npy",
        "sghash convert base.fvecs - --stop 5 | python my_script.py",
    ),
)
@click.argument("source", type=rows_type)
@click.argument("target", type=target_type)
@click.option("--dtype", help="Type of the written numbers; numbers that do not fit are refused.")
@rows_options
@overwrite_option
@json_option
def command(
    source: str,
    target: str,
    dtype: str | None,
    key: str | None,
    start: int,
    stop: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the vectors of SOURCE to TARGET; the ending of its name chooses the format.

    SOURCE is a file, a folder of parts, a data set such as digits.base, or - for stdin (.npy, or
    text with one vector per line). TARGET - is stdout, in the form of .npy.
    """
    rows = open_rows(source, key=key, start=start, stop=stop)
    written = write_rows("converting", rows, target, overwrite=overwrite, dtype=dtype)
    n, width = written.shape
    facts = {"target": target, "n": n, "dimensions": width, "dtype": str(written.dtype)}
    text = f"{n} vectors of {width} numbers ({written.dtype}): {target}"
    show(facts, text, as_json=as_json, err=target == STDIO)
