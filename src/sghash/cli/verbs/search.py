"""`sghash search`: the nearest rows of a collection, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from sghash.blocks import blocks_of
from sghash.cli.frame import examples, json_option
from sghash.cli.inputs import open_rows, path_type, rows_options, rows_type, threads_option
from sghash.cli.metadata import read_ids
from sghash.cli.printing import json_text, printable, say
from sghash.cli.progress import row_bar
from sghash.cli.rows_in import open_collection
from sghash.collection import Collection
from sghash.data.sources import RowSource
from sghash.errors import InvalidInput
from sghash.evaluation.tables import format_table
from sghash.neighbors import PADDING_ID, Neighbors

# Queries that are searched, and printed, at a time.
BLOCK_QUERIES = 1024
MAX_CELL = 48


@click.command(
    "search",
    epilog=examples(
        "sghash search photos queries.npy",
        'sghash search photos queries.npy --k 5 --rerank decoder --where "year >= 2000" --json',
        "echo '[0.1, 0.2, 0.3]' | sghash search photos -",
    ),
)
@click.argument("collection", type=path_type)
@click.argument("queries", type=rows_type)
@click.option(
    "--k",
    "-k",
    type=click.IntRange(min=1),
    metavar="N",
    default=10,
    show_default=True,
    help="Neighbours per query.",
)
@click.option(
    "--rerank",
    type=click.Choice(["none", "decoder", "vectors"]),
    help="What decides: the codes, what they stand for, or the kept vectors; else the plan, or the "
    "vectors where they are kept.",
)
@click.option(
    "--shortlist",
    help="Rows that the codes let through to --rerank: a number, all, or a pair as in 500,50.",
)
@click.option(
    "--target-recall",
    type=float,
    metavar="SHARE",
    help="Find this share of the true neighbours, as in 0.95, and visit no more than that takes.",
)
@click.option(
    "--where",
    help="Condition on metadata, as in: year >= 2000 and lang in ('de', 'en').",
)
@click.option(
    "--among", type=rows_type, help="File of ids or keys, one per line: only these may be found."
)
@click.option("--as-keys", is_flag=True, help="Take --among as string keys, even whole numbers.")
@threads_option
@rows_options
@json_option
def command(
    collection: Path,
    queries: str,
    k: int,
    rerank: str | None,
    shortlist: str | None,
    target_recall: float | None,
    where: str | None,
    among: str | None,
    as_keys: bool,
    threads: int | None,
    key: str | None,
    start: int,
    stop: int | None,
    as_json: bool,
) -> None:
    """Find the rows of COLLECTION that are nearest to each of the QUERIES.

    QUERIES is a file of vectors, a data set such as digits.queries, or - for stdin (.npy, or text
    with one vector per line). Rows come with their metadata, nearest first.
    """
    if where is not None and among is not None:
        raise InvalidInput("give either --where or --among")
    opened = open_collection(collection)
    rows = open_rows(queries, key=key, start=start, stop=stop)
    chosen: Any = where if among is None else read_ids(among, as_keys=as_keys)
    if k > len(opened) > 0:
        shown = "all are shown" if chosen is None else "all that may be found are shown"
        say(f"{collection} holds {len(opened)} rows, fewer than --k {k}: {shown}", err=True)
    found = _search(
        opened, rows, min(k, max(1, len(opened))), rerank=rerank,
        shortlist=_shortlist(shortlist), where=chosen, threads=threads, target_recall=target_recall,
    )  # fmt: skip
    answers = _answers(opened, found, start)
    for text in _as_json(answers) if as_json else _as_table(opened, answers):
        say(*text.split("\n"))


def _shortlist(text: str | None) -> Any:
    if text is None:
        return None
    parts = [part if part == "all" else _whole(part) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInput(
            f"--shortlist takes a number, all, or two with a comma, got {text[:40]!r}"
        ) from error


def _search(opened: Collection, rows: RowSource, k: int, **options: Any) -> Neighbors:
    """Search all queries before anything is printed, so that a failure prints nothing."""
    parts = []
    with row_bar("searching", unit="query") as bar:
        for first, block in blocks_of(rows, BLOCK_QUERIES):
            parts.append(opened.search(block, k, **options))
            bar(first + len(block), rows.shape[0])
    if not parts:
        raise InvalidInput("there are no queries: choose at least one row")
    return Neighbors(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _answers(opened: Collection, found: Neighbors, start: int) -> Iterator[dict[str, Any]]:
    """Per query its row and its neighbours, each with id, key, distance and metadata."""
    for first in range(0, len(found.ids), BLOCK_QUERIES):
        ids = found.ids[first : first + BLOCK_QUERIES]
        distances = found.distances[first : first + BLOCK_QUERIES]
        known = np.unique(ids[ids != PADDING_ID]).tolist()
        place = {id_: row for row, id_ in enumerate(known)}
        records = opened.get(known) if known else None
        for query, (own, far) in enumerate(zip(ids.tolist(), distances.tolist(), strict=True)):
            neighbors = [
                {
                    "id": id_,
                    "key": records.keys[place[id_]],
                    "distance": distance,
                    "metadata": {
                        name: values[place[id_]] for name, values in records.metadata.items()
                    },
                }
                for id_, distance in zip(own, far, strict=True)
                if records is not None and id_ != PADDING_ID
            ]
            yield {"query": start + first + query, "neighbors": neighbors}


def _as_json(answers: Iterator[dict[str, Any]]) -> Iterator[str]:
    """One list in pieces: a query per line."""
    yield "["
    line = None
    for answer in answers:
        if line is not None:
            yield f"{line},"
        line = f"  {json_text(answer)}"
    yield f"{line}\n]"


def _as_table(opened: Collection, answers: Iterator[dict[str, Any]]) -> Iterator[str]:
    columns = sorted(opened.stats()["columns"])
    block: list[dict[str, Any]] = []
    headed = False
    for answer in answers:
        block.append(answer)
        if len(block) == BLOCK_QUERIES:
            yield _lines(block, columns, headed)
            block, headed = [], True
    if block:
        yield _lines(block, columns, headed)


def _lines(block: list[dict[str, Any]], columns: list[str], headed: bool) -> str:
    with_keys = any(n["key"] is not None for answer in block for n in answer["neighbors"])
    named = map(_cell, columns)
    heads = ["query", "rank", "id", *(["key"] if with_keys else []), "distance", *named]
    rows = []
    for answer in block:
        for rank, neighbor in enumerate(answer["neighbors"], start=1):
            distance = neighbor["distance"]
            shown = [answer["query"], rank, neighbor["id"]]
            shown += [neighbor["key"]] if with_keys else []
            shown += [distance if isinstance(distance, int) else f"{distance:.5g}"]
            shown += [neighbor["metadata"][name] for name in columns]
            rows.append([_cell(value) for value in shown])
    if not rows:
        return "no rows"
    text = format_table(heads, rows)
    return text.split("\n", 1)[1] if headed else text


def _cell(value: Any) -> str:
    text = "" if value is None else printable(str(value))
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 3]}..."
