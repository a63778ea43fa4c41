"""`sghash serve`: collections over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from sghash.cli.frame import examples
from sghash.cli.inputs import path_type, threads_option
from sghash.cli.printing import say

_positive = click.FloatRange(min=0, max=86_400)


@click.command(
    "serve",
    epilog=examples(
        "sghash serve photos",
        "sghash serve photos texts=old/texts --writable --api-key-file keys.txt",
        "sghash serve photos --host 0.0.0.0 --port 80 --api-key-file keys.txt",
    ),
)
@click.argument("collections", nargs=-1, required=True, metavar="COLLECTION...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8080,
    show_default=True,
    help="Port to listen at; 0 is any that is free.",
)
@click.option("--writable", is_flag=True, help="Allow add, upsert and delete.")
@click.option(
    "--api-key-file",
    type=path_type,
    help="File of keys, one per line: read KEY, write KEY, or KEY for both.",
)
@click.option(
    "--cors-origin", multiple=True, help="Origin that pages may ask from, as in https://a.example."
)
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="Name that requests may be for, beside local ones. "
    "[default: any, but none where a local server asks for no keys]",
)
@click.option(
    "--gather-ms",
    type=_positive,
    metavar="MS",
    default=1.0,
    show_default=True,
    help="Gather single queries for so long and search them together; 0 searches each alone.",
)
@click.option(
    "--refresh",
    type=_positive,
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="Look for what other processes have written; 0 never does.",
)
@click.option(
    "--max-body-mb",
    type=click.IntRange(1, 4096),
    metavar="MB",
    default=32,
    show_default=True,
    help="Largest body, and most keys and metadata in an answer.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000,
    show_default=True,
    help="Most rows or queries of one request.",
)
@click.option(
    "--max-k",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000,
    show_default=True,
    help="Most neighbours of one query.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1, max=86_400),
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="Longest time for an answer, and for a request to arrive.",
)
@click.option("--quiet", is_flag=True, help="Log no requests, only what goes wrong.")
@threads_option
def command(
    collections: tuple[str, ...],
    host: str,
    port: int,
    writable: bool,
    api_key_file: Path | None,
    cors_origin: tuple[str, ...],
    allowed_host: tuple[str, ...],
    gather_ms: float,
    refresh: float,
    max_body_mb: int,
    max_rows: int,
    max_k: int,
    timeout: float,
    quiet: bool,
    threads: int | None,
) -> None:
    """Serve one COLLECTION or several over HTTP, until Ctrl-C.

    A collection is called as its folder, or as in texts=old/texts. The address is printed on
    stdout once it is open; the log goes to stderr, a JSON object per line. /docs shows what can be
    asked. What was begun when the server is stopped is answered, and what was answered is on the
    disk.
    """
    from sghash.optional import require

    for module in ("fastapi", "uvicorn", "httptools"):
        require(module, extra="serve")
    from sghash.serve.keys import read_keys
    from sghash.serve.running import serve
    from sghash.serve.settings import MEGABYTE, Limits, Settings

    limits = Limits(
        body_bytes=max_body_mb * MEGABYTE, bodies_bytes=4 * max_body_mb * MEGABYTE,
        text_bytes=max_body_mb * MEGABYTE, rows=max_rows, k=max_k,
        seconds=timeout, arrival_seconds=timeout,
    )  # fmt: skip
    settings = Settings(
        writable=writable, keys=None if api_key_file is None else read_keys(api_key_file),
        cors_origins=cors_origin, hosts=tuple(name.lower() for name in allowed_host) or None,
        gather_seconds=gather_ms / 1e3, refresh_seconds=refresh,
        threads=threads, log_requests=not quiet, limits=limits,
    )  # fmt: skip
    serve(collections, settings, host=host, port=port, listening=say)
