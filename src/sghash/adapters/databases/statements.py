"""The statements that search PostgreSQL, as texts with %s where values go."""

from __future__ import annotations

from typing import NamedTuple

from sghash.adapters.databases.base import ARRIVING

#: What pgvector computes, on the scale that distances have everywhere here.
METRICS = {
    "l2": "power((vector <-> {query})::float8, 2)",
    "ip": "(vector <#> {query})::float8",
    # Of a vector of zeros pgvector says NaN; here it is as far as one at right angles.
    "cosine": "coalesce(nullif((vector <=> {query})::float8, 'NaN'), 1)",
}


#: Where rows arrive that replace others.
TEMPORARY = f"pg_temp.{ARRIVING}"


class Shape(NamedTuple):
    """What a search visits, and what orders its answers.

    Values come in this order: the query's code, its lists, allowed ids, its vector.
    """

    table: str
    n_bits: int
    by_lists: bool = False
    masked: bool = False
    graph: bool = False
    shortlist: int | None = None
    metric: str = "l2"


def search_statement(shape: Shape, k: int) -> str:
    """The statement of one query; answers are rows (id, distance)."""
    conditions = ["list_id = ANY(%s::integer[])"] * shape.by_lists
    conditions += ["id = ANY(%s::bigint[])"] * shape.masked
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    code = f"%s::bit({shape.n_bits})"
    columns = "id" if shape.shortlist is None else "id, vector"
    wanted = k if shape.shortlist is None else shape.shortlist
    if shape.graph:
        # The graph gives rows by distance alone; ties are put in order afterwards.
        own = f"(SELECT q.code FROM q)::bit({shape.n_bits})"
        near = (
            f"WITH q AS (SELECT {code} AS code), near AS MATERIALIZED ("
            f"SELECT {columns}, (code <~> {own})::integer AS distance "
            f'FROM "{shape.table}"{where} ORDER BY code <~> {own} LIMIT {wanted}) '
        )
        if shape.shortlist is None:
            return f"{near}SELECT id, distance FROM near ORDER BY distance, id"
        return near + _ordered_by_vectors(shape, k)
    scan = (
        f"SELECT {columns}, bit_count(code # {code})::integer AS distance "
        f'FROM "{shape.table}"{where} ORDER BY distance, id LIMIT {wanted}'
    )
    if shape.shortlist is None:
        return scan
    return f"WITH near AS MATERIALIZED ({scan}) {_ordered_by_vectors(shape, k)}"


def _ordered_by_vectors(shape: Shape, k: int) -> str:
    distance = METRICS[shape.metric].format(query="%s::halfvec")
    return f"SELECT id, {distance} AS distance FROM near ORDER BY distance, id LIMIT {k}"


def arriving_table(table: str, columns: list[str]) -> str:
    """A table of this transaction, for rows that replace some of `table`."""
    return (
        f"CREATE TEMPORARY TABLE {ARRIVING} ON COMMIT DROP AS "
        f'SELECT {", ".join(columns)} FROM "{table}" WITH NO DATA'
    )


def arriving_rows(table: str, columns: list[str]) -> str:
    """Bring them to `table`; what else a row holds there stays."""
    names = ", ".join(columns)
    new = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
    return (
        f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {TEMPORARY} '
        f"ON CONFLICT (id) DO UPDATE SET {new}"
    )


def numbered(statement: str) -> str:
    """The same with $1, $2, ... where values go, as PostgreSQL itself writes it."""
    head, *rest = statement.split("%s")
    return head + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
