"""PostgreSQL: codes in a column bit(n), exact on a stock server, by lists or pgvector's graph.

    SELECT id, bit_count(code # $1) AS distance FROM t WHERE list_id = ANY($2)
    ORDER BY distance, id LIMIT k

A list is what rows near one centroid share; `list_id` needs no extension, only a btree. With
pgvector, `create_graph` makes an HNSW index, which `search(..., graph=True)` asks, and
`create(..., keep_vectors=d)` a column of small vectors that order a shortlist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.adapters.databases.asking import Asked, answers, breadth, columns_of, graph_of
from sghash.adapters.databases.base import (
    FORMAT,
    NOTES,
    DatabaseIndex,
    Found,
    Note,
    check_columns,
    check_fingerprint,
    check_note,
    check_table_name,
    closing_on_failure,
    gathered,
)
from sghash.adapters.databases.copying import copied_out, ids_of_copy, rows_of_copy, rows_to_copy
from sghash.adapters.databases.kept import Kept
from sghash.adapters.databases.link import Link
from sghash.adapters.databases.lists import from_stored, nearest_lists, probes_within, to_stored
from sghash.adapters.databases.statements import (
    METRICS,
    TEMPORARY,
    Shape,
    arriving_rows,
    arriving_table,
    numbered,
    search_statement,
)
from sghash.bits import to_bit_strings
from sghash.errors import InvalidInput, MissingExtra
from sghash.index.lists.centroids import Partitions, check_places
from sghash.neighbors import Neighbors
from sghash.validation import (
    Codes,
    Ids,
    check_choice,
    check_codes,
    check_count,
    check_k,
    check_mask,
    check_n_bits,
    check_threads,
    check_vectors,
)

_MAKE_NOTES = (
    f"CREATE TABLE IF NOT EXISTS {NOTES} (name text PRIMARY KEY, format integer NOT NULL, "
    "n_bits integer NOT NULL, fingerprint text NOT NULL, next_id bigint NOT NULL, "
    "metric text, width integer, centroids bytea, kept integer NOT NULL, kept_metric text)"
)


class PostgresIndex(DatabaseIndex):
    """Codes in a table of PostgreSQL: `id bigint`, `list_id integer`, `code bit(n)`.

    With `keep_vectors`, also `vector halfvec(d)`, by which pgvector orders a shortlist.

    Make one with `create`, come back with `open`. Other columns may be added to the table and
    joined; the SQL is what `explain` gives. Each change is one transaction, and writers wait for
    each other. A lost connection is made again when a search finds it lost.
    """

    def __init__(
        self, link: Link, table: str, note: Note, partitions: Partitions | None, kept: Kept
    ) -> None:
        super().__init__(table, note, link.guard)
        self._link, self.kept, self.partitions = link, kept, partitions

    @classmethod
    def create(
        cls,
        address: str,
        table: str,
        *,
        n_bits: int,
        fingerprint: str,
        partitions: Partitions | None = None,
        keep_vectors: int | None = None,
        metric: str = "l2",
    ) -> PostgresIndex:
        """Make a table for the codes of one model in the database at `address`.

        `address` is "postgresql://..." or "host=... dbname=..."; it is not kept in any message.
        `partitions`, those of a `PartitionedIndex`, say what list a row belongs to.
        `keep_vectors`, a number of columns, keeps vectors of 16 bits a number beside the codes, to
        order a shortlist by `metric` ("l2", "ip" or "cosine"); this needs pgvector 0.7 or later.
        """
        check_table_name(table)
        note = Note(check_n_bits(n_bits), check_fingerprint(fingerprint), 0)
        check_count(keep_vectors, name="keep_vectors", or_none=True)
        kept = Kept(int(keep_vectors or 0), check_choice(metric, tuple(METRICS), name="metric"))
        stored = to_stored(partitions, note.n_bits)
        index = cls(Link(address), table, note, partitions, kept)
        with closing_on_failure(index), index._transaction():
            ask = index._link.ask
            if ask("SELECT to_regclass(%s)::text", [f'"{table}"'])[0][0] is not None:
                raise InvalidInput(f"there is a table {table!r} already: open it, or take a name")
            if kept.width and ask("SELECT to_regtype('halfvec')::text")[0][0] is None:
                raise MissingExtra(
                    "this database has no pgvector 0.7 or later, which keeps vectors: run CREATE "
                    "EXTENSION vector in it as its owner, or leave keep_vectors out"
                )
            ask("SELECT pg_advisory_xact_lock(7305817)")  # two may make the first note at once
            ask(_MAKE_NOTES)
            ask(
                f'CREATE TABLE "{table}" (id bigint PRIMARY KEY, list_id integer NOT NULL, '
                f"code bit({note.n_bits}) NOT NULL{kept.column})"
            )
            if partitions is not None:
                ask(f'CREATE INDEX "{table}_lists" ON "{table}" (list_id)')
            ask(f"DELETE FROM {NOTES} WHERE name = %s", [table])
            ask(
                f"INSERT INTO {NOTES} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                [table, FORMAT, *note, *stored, *kept],
            )
        return index

    @classmethod
    def open(cls, address: str, table: str, *, fingerprint: str | None = None) -> PostgresIndex:
        """Open a table that `create` made; `fingerprint`, if given, must be its model's."""
        check_table_name(table)
        index = cls(Link(address), table, Note(8, "", 0), None, Kept(0, "l2"))
        with closing_on_failure(index):
            found: list[Any] = []
            names = index._link.read(
                "SELECT to_regclass(%s), to_regclass(%s)", [NOTES, f'"{table}"']
            )
            if None not in names[0]:
                found = index._link.read(
                    "SELECT format, n_bits, fingerprint, next_id, metric, width, centroids, kept, "
                    f"kept_metric FROM {NOTES} WHERE name = %s", [table],
                )  # fmt: skip
            version, note = (found[0][0], Note(*found[0][1:4])) if found else (None, None)
            note = check_note(table, note, version, fingerprint)
            index.n_bits, index.fingerprint = note.n_bits, note.fingerprint
            index.partitions, index.kept = from_stored(*found[0][4:7]), Kept(*found[0][7:])
            wanted = {"id": "bigint", "list_id": "integer", "code": f"bit({index.n_bits})"}
            if index.kept.width:
                wanted["vector"] = f"halfvec({index.kept.width})"
            check_columns(table, columns_of(index._link, table), wanted)
        return index

    @classmethod
    def has(cls, address: str, table: str) -> bool:
        """Whether there is such a table in the database, of codes or not."""
        check_table_name(table)
        link = Link(address)
        try:
            return link.read("SELECT to_regclass(%s)::text", [f'"{table}"'])[0][0] is not None
        finally:
            link.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def __len__(self) -> int:
        return int(self._link.read(f'SELECT count(*) FROM "{self.table}"')[0][0])

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, vectors: ArrayLike | None = None
    ) -> Ids:
        """Add codes and return their ids (n,) int64, in the order given, all of them or none.

        `vectors` (n, d) say which list a code belongs to, where lists are those of vectors, and
        are kept where the table keeps them. Without `ids` rows get the next numbers never used.
        """
        rows = check_codes(codes, self.n_bits)
        copy = self._copying(rows, vectors)
        return self._add_rows(rows, ids, copy)

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, vectors: ArrayLike | None = None) -> Ids:
        """Like `add`, but an id that is there gets the new code: all of them or none.

        Columns that were added to the table keep what they hold.
        """
        rows = check_codes(codes, self.n_bits)
        copy = self._copying(rows, vectors, into=TEMPORARY)

        def replace(own: Ids, all_: Codes) -> None:
            self._link.ask(arriving_table(self.table, self._names))
            copy(own, all_)
            self._link.ask(arriving_rows(self.table, self._names))

        return self._upsert_rows(rows, ids, replace)

    @property
    def _names(self) -> list[str]:
        """The columns that are ours."""
        return ["id", "list_id", "code"] + ["vector"] * bool(self.kept.width)

    def _copying(
        self, rows: Codes, vectors: ArrayLike | None, *, into: str | None = None
    ) -> Callable[[Ids, Codes], None]:
        """What copies these codes into the table, with their lists and vectors."""
        lists = np.zeros(len(rows), dtype=np.int64)
        places = self._places(rows, vectors)
        if self.partitions is not None and len(rows):
            lists = self.partitions.lists_of(places)[0][:, 0]
        halves = None
        if self.kept.width:
            halves = self.kept.halves(vectors, len(rows))
        into = into or f'"{self.table}"'
        statement = f"COPY {into} ({', '.join(self._names)}) FROM STDIN (FORMAT binary)"

        def copy(ids: Ids, codes: Codes) -> None:
            self._link.copy_in(statement, rows_to_copy(ids, lists, codes, self.n_bits, halves))

        return copy

    def search(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        vectors: ArrayLike | None = None,
        probes: int | None = None,
        graph: bool = False,
        ef_search: int = 40,
        rerank: int | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest codes of each query: distances int32 and ids int64, (n_queries, k).

        `probes` is the number of lists to visit, None for all rows, which is exact; `vectors` are
        the queries themselves, where lists are those of vectors. `graph` asks the HNSW index of
        `create_graph` instead, `ef_search` of its candidates at a time (or k or `rerank`, if that
        is more; 1000 at most), and orders ties among what it finds. With `rerank`, the best k of
        so many nearest codes by their kept vectors, which `vectors` are compared with, distances
        float32. `mask` (len(index),) bool allows the rows of `ids` where it is True; as many more
        lists are visited as it leaves rows out. Where the graph, or lists with a mask, give fewer
        rows than there are, all rows are read.
        """
        queries = check_codes(query_codes, self.n_bits, name="query_codes")
        check_k(k)
        check_threads(threads)
        check_count(probes, name="probes", or_none=True)
        shape = self._shape(probes, graph, rerank, k)._replace(masked=mask is not None)
        ef = breadth(ef_search, shape.shortlist or k)
        places = self._places(queries, vectors) if probes or vectors is not None else queries
        allowed = chosen = None
        if mask is not None:
            everyone = self.ids
            chosen = check_mask(mask, len(everyone))
            allowed = everyone[chosen].tolist()
        lists: list[Any] = [None] * len(queries)
        if probes is not None and self.partitions is not None:
            wanted = probes_within(self.partitions, probes, chosen)
            lists = nearest_lists(self.partitions, places, wanted).tolist()
        texts: list[Any] = [None] * len(queries)
        if rerank is not None:
            texts = [str(own) for own in self.kept.halves(vectors, len(queries)).tolist()]
        asked = list(map(Asked, to_bit_strings(queries, self.n_bits), lists, texts))
        kind = np.int32 if rerank is None else np.float32
        return gathered(answers(self._link, shape, k, asked, allowed, ef), len(queries), k, kind)

    def explain(
        self,
        k: int = 10,
        *,
        probes: int | None = None,
        graph: bool = False,
        rerank: int | None = None,
    ) -> str:
        """The statement that such a search runs, to be taken away.

        $1 is the query's code; what follows are its lists and its vector, where asked for.
        """
        check_k(k)
        return numbered(search_statement(self._shape(probes, graph, rerank, k), k))

    def _shape(self, probes: int | None, graph: bool, rerank: int | None, k: int) -> Shape:
        if graph and probes is not None:
            raise InvalidInput("graph and probes are two ways to visit few rows: give one of them")
        if probes is not None and self.partitions is None:
            raise InvalidInput(
                f"the table {self.table!r} has no lists: leave probes out, or create it with "
                "partitions"
            )
        check_count(rerank, name="rerank", or_none=True)
        if rerank is not None and not self.kept.width:
            raise InvalidInput(
                f"the table {self.table!r} keeps no vectors: leave rerank out, or create it with "
                "keep_vectors"
            )
        shortlist = None if rerank is None else max(int(rerank), k)
        shape = Shape(self.table, self.n_bits, by_lists=probes is not None, graph=graph)
        return shape._replace(shortlist=shortlist, metric=self.kept.metric)

    def create_graph(self, *, m: int = 16, ef_construction: int = 64) -> None:
        """Make pgvector's HNSW index over the codes; new rows join it by themselves.

        A graph that the table has already stays as it is.
        """
        check_count(m, name="m", least=2)
        check_count(ef_construction, name="ef_construction", least=4)
        graph, name = graph_of(self._link, self.table), f"{self.table}_graph"
        if graph.version is None:
            raise MissingExtra(
                "this database has no pgvector: run CREATE EXTENSION vector in it as its owner, "
                "or search by lists, which need no extension"
            )
        if graph.there:
            return
        with self._transaction():
            if self._link.ask("SELECT to_regclass(%s)::text", [f'"{name}"'])[0][0] is not None:
                raise InvalidInput(
                    f"there is something called {name!r} already, which is no graph over "
                    f"{self.table!r}: rename or drop it, then make the graph"
                )
            self._link.ask(
                f'CREATE INDEX "{name}" ON "{self.table}" USING hnsw (code bit_hamming_ops) '
                f"WITH (m = {int(m)}, ef_construction = {int(ef_construction)})"
            )

    def cluster(self) -> None:
        """Let rows of one list lie together, so that a search by lists reads few pages."""
        if self.partitions is None:
            raise InvalidInput(f"the table {self.table!r} has no lists to cluster by")
        with self._transaction():
            self._link.ask(f'CLUSTER "{self.table}" USING "{self.table}_lists"')
            self._link.ask(f'ANALYZE "{self.table}"')

    def _places(self, codes: Codes, vectors: ArrayLike | None) -> NDArray[Any]:
        """What says which lists rows belong to: their codes, or their vectors."""
        if vectors is None and self.partitions is None:
            return codes
        wanted = codes if vectors is None else check_vectors(vectors)
        if len(wanted) != len(codes):
            raise InvalidInput(
                f"got {len(wanted)} vectors for {len(codes)} codes: give one per code"
            )
        if self.partitions is None or (self.partitions.by_code and self.kept.width):
            if not self.kept.width:
                raise InvalidInput(
                    f"the table {self.table!r} has no use for vectors: give codes alone"
                )
            return codes
        check_places(self.partitions, wanted, vectors is not None)
        return wanted

    def _transaction(self) -> AbstractContextManager[object]:
        return self._link.transaction()

    def _next_id(self) -> int:
        found = self._link.ask(
            f"SELECT next_id FROM {NOTES} WHERE name = %s FOR UPDATE", [self.table]
        )
        if not found:
            raise InvalidInput(f"the table {self.table!r} is no longer one of codes")
        return int(found[0][0])

    def _note_next_id(self, next_id: int) -> None:
        self._link.ask(f"UPDATE {NOTES} SET next_id = %s WHERE name = %s", [next_id, self.table])

    def _known(self, ids: Ids) -> Ids:
        found = self._link.ask(
            f'SELECT id FROM "{self.table}" WHERE id = ANY(%s::bigint[])', [ids.tolist()]
        )
        return np.asarray([row[0] for row in found], dtype=np.int64)

    def _insert(self, ids: Ids, codes: Codes) -> None:
        self._copying(codes, None)(ids, codes)

    def _remove(self, ids: Ids) -> None:
        self._link.ask(f'DELETE FROM "{self.table}" WHERE id = ANY(%s::bigint[])', [ids.tolist()])

    def _rows(self, ids: Ids | None) -> Found:
        only = "" if ids is None else " WHERE id = ANY(%s::bigint[])"
        statement = copied_out(f'SELECT id, code FROM "{self.table}"{only} ORDER BY id')
        values = None if ids is None else [ids.tolist()]
        return rows_of_copy(self._link.copy_out(statement, values), self.n_bits)

    def _all_ids(self) -> Ids:
        statement = copied_out(f'SELECT id FROM "{self.table}" ORDER BY id')
        return ids_of_copy(self._link.copy_out(statement, None))

    def _nearest(self, queries: Codes, k: int, allowed: Ids | None) -> Iterator[Any]:
        raise AssertionError("search has its own statements")
