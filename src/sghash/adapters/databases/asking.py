"""How PostgreSQL is searched: by its graph or by lists, and exactly where those come short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.adapters.databases.link import Link
from sghash.adapters.databases.statements import Shape, search_statement
from sghash.errors import InvalidInput
from sghash.validation import Ids, check_count

#: The most candidates that pgvector's graph keeps at a time.
LARGEST_EF = 1000
_GRAPHS = (
    "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'), EXISTS ("
    "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "JOIN pg_am a ON a.oid = c.relam "
    "JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attnum = ANY(i.indkey) "
    "WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw' AND i.indisvalid "
    "AND t.attname = 'code')"
)


class Graph(NamedTuple):
    """pgvector's version in a database, None where it has none; whether a table has a graph."""

    version: tuple[int, ...] | None
    there: bool


class Asked(NamedTuple):
    """One query: its code, the lists to visit and the vector to order by, where asked for."""

    code: str
    lists: list[int] | None
    vector: str | None

    def values(self, shape: Shape, allowed: list[int] | None) -> list[Any]:
        """What stands in the places of a statement, in their order."""
        lists = self.lists if shape.by_lists else None
        values = [self.code, lists, allowed, self.vector]
        return [value for value in values if value is not None]


def columns_of(link: Link, table: str) -> dict[str, str]:
    """Names and types of the columns of a table."""
    return dict(
        link.read(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [f'"{table}"'],
        )
    )


def graph_of(link: Link, table: str) -> Graph:
    """What graph there is over the codes of a table."""
    version, there = link.read(_GRAPHS, [f'"{table}"'])[0]
    numbers = None if version is None else tuple(map(int, re.findall(r"\d+", version)))
    return Graph(numbers, bool(there))


def breadth(ef_search: int, wanted: int) -> int:
    """Candidates of the graph at a time, for so many answers."""
    check_count(ef_search, name="ef_search")
    if ef_search > LARGEST_EF:
        raise InvalidInput(
            f"ef_search must be at most {LARGEST_EF}, which is pgvector's own limit, got "
            f"{ef_search}: search without the graph for exact answers"
        )
    return min(LARGEST_EF, max(int(ef_search), wanted))


def answers(
    link: Link, shape: Shape, k: int, queries: list[Asked], allowed: list[int] | None, ef: int
) -> Iterator[tuple[Ids, NDArray[Any]]]:
    """(ids, distances) of each query; by every row where the quick way gives fewer than it could.

    A graph gives no more than its candidates, of which a mask leaves few; and of the lists that
    are visited, a mask may leave less than k rows.
    """
    settings: dict[str, str] = {}
    every_row = shape._replace(by_lists=False, graph=False)
    if shape.graph:
        shape, settings = _by_graph(link, shape, k, ef)
    quick, exact = (search_statement(one, k) for one in (shape, every_row))
    may_be_short = shape.graph or (shape.by_lists and shape.masked)
    reachable = None if allowed is None else len(allowed)
    for query in queries:
        found = link.read(quick, query.values(shape, allowed), settings=settings)
        if may_be_short and len(found) < k:
            if reachable is None:
                reachable = int(link.read(f'SELECT count(*) FROM "{shape.table}"')[0][0])
            if len(found) < reachable:
                found = link.read(exact, query.values(every_row, allowed))
        ids = np.asarray([row[0] for row in found], dtype=np.int64)
        yield ids, np.asarray([row[1] for row in found])


def _by_graph(link: Link, shape: Shape, k: int, ef: int) -> tuple[Shape, dict[str, str]]:
    """The shape and the settings of a search by the graph."""
    graph = graph_of(link, shape.table)
    if not graph.there:
        raise InvalidInput(
            f"the table {shape.table!r} has no graph over its codes: make it with create_graph, or "
            "leave graph out"
        )
    settings = {"hnsw.ef_search": str(ef)}
    if graph.version is not None and graph.version >= (0, 8):
        # Goes on in the graph until there are enough rows that the mask allows.
        return shape, settings | {"hnsw.iterative_scan": "strict_order"}
    too_many = (shape.shortlist or k) > LARGEST_EF
    return shape._replace(graph=not too_many), settings
