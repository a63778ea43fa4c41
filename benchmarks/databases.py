"""Codes in databases: rows per second, milliseconds per query, beside floats and our own scan.

    python benchmarks/databases.py                     # both parts, below twenty minutes
    python benchmarks/databases.py --quick             # small, does it run?
    python benchmarks/databases.py --only postgresql   # the million rows alone

Engines: SIFT of photos, 128 numbers a row. The engine's own float search compares all vectors, and
so finds all; codes find a shortlist in the engine, which float16 vectors in this process put in
order. How long the shortlist must be is chosen on other queries than those that are reported.

PostgreSQL: codes of 64 bits of a stream of perturbed SIFT. A stock server with lists, its table
clustered by them, beside its full scan; pgvector's graph beside both. "near" is the share of
answers no farther than the exact k-th; lists to visit and `ef_search` are chosen on other queries.

Contenders take turns on one core; the median of the queries' wall times counts. Servers are those
of the tests (`make test-adapters` installs them).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from measuring.verdicts import at_least, line

import sghash
from sghash.experiments.streams import PerturbedStream
from sghash.index import HammingIndex, PartitionedIndex

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "adapters"))

K, BITS = 10, 128
LENGTHS = (20, 50, 100, 200, 400, 800, 1600)
PROBES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BREADTHS = (20, 40, 80, 120, 200, 400, 800)
SAME, NEAR, TIMES = 0.99, 0.95, 6.0
TARGETS = {
    "lists: times faster than the stock full scan": at_least(TIMES),
    "lists: answers no farther than the exact k-th": at_least(NEAR),
}
Ask = Callable[[np.ndarray], np.ndarray]


def milliseconds(
    contenders: dict[str, Callable[[int], object]], n_queries: int
) -> dict[str, float]:
    """Median wall time of a query of each; they take turns, so that a busy moment hits all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for query in range(n_queries):
        for name, ask in contenders.items():
            started = time.perf_counter()
            ask(query)
            times[name].append(1e3 * (time.perf_counter() - started))
    return {name: float(np.median(taken)) for name, taken in times.items()}


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


# Floats in the engines themselves: a way to ask for the k nearest vectors.


def floats_of_duckdb(vectors: np.ndarray, folder: Path) -> Ask:
    import duckdb

    connection = duckdb.connect(str(folder / "floats.duckdb"))
    connection.execute("SET threads = 1")
    width = vectors.shape[1]
    connection.execute(f"CREATE TABLE f (id BIGINT, v FLOAT[{width}])")
    import pyarrow

    values = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), width)
    rows = pyarrow.table({"id": np.arange(len(vectors)), "v": values})
    connection.register("rows", rows)
    connection.execute("INSERT INTO f SELECT * FROM rows")
    statement = f"SELECT id FROM f ORDER BY array_distance(v, ?::FLOAT[{width}]), id LIMIT {K}"
    return lambda q: np.array(
        [r[0] for r in connection.execute(statement, [q.tolist()]).fetchall()]
    )


def floats_of_sqlite(vectors: np.ndarray, folder: Path) -> Ask:
    from sghash.adapters.databases.sqlite import SQLiteIndex

    made = SQLiteIndex.create(folder / "floats.sqlite", "x", n_bits=8, fingerprint="0" * 64)
    connection = made.connection
    connection.execute("CREATE TABLE f (id INTEGER PRIMARY KEY, v BLOB)")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO f VALUES (?, ?)", ((row, v.tobytes()) for row, v in enumerate(vectors))
    )
    connection.execute("COMMIT")
    statement = f"SELECT id FROM f ORDER BY vec_distance_l2(v, ?), id LIMIT {K}"
    return lambda q: np.array([r[0] for r in connection.execute(statement, [q.tobytes()])])


def floats_of_postgresql(vectors: np.ndarray, address: str) -> Ask:
    import psycopg

    connection = psycopg.connect(address, autocommit=True)
    connection.execute(f"CREATE TABLE f (id bigint, v vector({vectors.shape[1]}))")
    with connection.cursor().copy("COPY f FROM STDIN") as copy:
        for row, v in enumerate(vectors.tolist()):
            copy.write_row((row, str(v)))
    statement = f"SELECT id FROM f ORDER BY v <-> %s::vector, id LIMIT {K}"
    return lambda q: np.array([r[0] for r in connection.execute(statement, [str(q.tolist())])])


def floats_of_milvus(vectors: np.ndarray, folder: Path) -> Ask:
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(str(folder / "floats.db"))
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
    flat = client.prepare_index_params()
    flat.add_index("vector", index_type="FLAT", metric_type="L2")
    client.create_collection("f", schema=schema, index_params=flat, consistency_level="Strong")
    for start in range(0, len(vectors), 10_000):
        block = vectors[start : start + 10_000].tolist()
        client.insert("f", [{"id": start + row, "vector": v} for row, v in enumerate(block)])
    return lambda q: np.array([r["id"] for r in client.search("f", [q.tolist()], limit=K)[0]])


def floats_of_faiss(vectors: np.ndarray, folder: Path) -> Ask:
    import faiss

    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatL2(vectors.shape[1])
    flat.add(vectors)
    return lambda q: flat.search(q[None], K)[1][0]


def engines(folder: Path, server: Any) -> Iterator[tuple[str, Any, Any, Callable[..., Ask]]]:
    """Name, class, place and float search of each engine."""
    from sghash.adapters.databases.duckdb import DuckDBIndex
    from sghash.adapters.databases.faiss_file import FaissFileIndex
    from sghash.adapters.databases.milvus import MilvusIndex
    from sghash.adapters.databases.postgresql import PostgresIndex
    from sghash.adapters.databases.sqlite import SQLiteIndex

    yield "PostgreSQL 18", PostgresIndex, address_of(server), floats_of_postgresql
    yield "DuckDB", DuckDBIndex, folder / "codes.duckdb", floats_of_duckdb
    yield "SQLite with sqlite-vec", SQLiteIndex, folder / "codes.sqlite", floats_of_sqlite
    yield "Milvus Lite", MilvusIndex, folder / "codes.db", floats_of_milvus
    yield "FAISS", FaissFileIndex, folder / "codes.faiss", floats_of_faiss


def address_of(server: Any) -> str:
    # One core for every engine, and memory enough to build a graph in.
    return server.address + (
        " options='-c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0"
        " -c maintenance_work_mem=1GB'"
    )


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float(
        np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, truth, strict=True)])
    )


class Bench:
    """Rows, queries and their truth, and what all engines are compared by."""

    def __init__(self, n_rows: int, n_queries: int) -> None:
        data = sghash.load_dataset("sift-photos", fetch=False)
        self.n_queries = n_queries
        self.base = np.asarray(data.base)[:n_rows].astype(np.float32)
        self.queries = np.asarray(data.queries)[: 2 * n_queries].astype(np.float32)
        model = sghash.SGH(BITS, random_state=0).fit(self.base[:50_000])
        self.codes, self.query_codes = model.encode(self.base), model.encode(self.queries)
        self.halves = self.base.astype(np.float16)
        self.truth = sghash.ground_truth(self.base, self.queries, K).ids
        self.own = HammingIndex(BITS)
        self.own.add(self.codes)
        self.length = self._length()

    def ordered(self, ids: np.ndarray, query: int) -> np.ndarray:
        """The best k of a shortlist by float16 vectors."""
        rows = self.halves[ids].astype(np.float32) - self.queries[query]
        return ids[np.argsort(np.einsum("ij,ij->i", rows, rows), kind="stable")[:K]]

    def _length(self) -> int:
        """How long a shortlist finds what is asked for, on the second half of the queries."""
        others = np.arange(self.n_queries, 2 * self.n_queries)
        for length in LENGTHS:
            near = self.own.search(self.query_codes[others], length).ids
            found = [self.ordered(ids, query) for ids, query in zip(near, others, strict=True)]
            if recall(np.stack(found), self.truth[others]) >= SAME:
                return length
        return LENGTHS[-1]

    def row(self, title: str, kind: Any, place: Any, floats: Callable[..., Ask]) -> list[str]:
        with kind.create(place, "codes", n_bits=BITS, fingerprint="0" * 64) as index:
            if title == "DuckDB":
                index.connection.execute("SET threads = 1")
            came, went = self._rates(index)
            ask_floats = floats(self.base, place if isinstance(place, str) else place.parent)
            found: dict[str, list[np.ndarray]] = {"both": [], "floats": []}

            def code(query: int) -> np.ndarray:
                return self.query_codes[query : query + 1]

            def both(query: int) -> None:
                near = index.search(code(query), self.length).ids[0]
                found["both"].append(self.ordered(near, query))

            times = milliseconds(
                {
                    "codes": lambda query: index.search(code(query), K),
                    "own": lambda query: self.own.search(code(query), K, threads=1),
                    "both": both,
                    "floats": lambda query: found["floats"].append(ask_floats(self.queries[query])),
                },
                self.n_queries,
            )
        shares = {
            name: recall(np.stack(ids), self.truth[: self.n_queries]) for name, ids in found.items()
        }
        return [title, f"{came:,.0f}", f"{went:,.0f}", f"{times['codes']:.2f}",
                f"{times['own']:.2f}", f"{times['both']:.2f}", f"{shares['both']:.3f}",
                f"{times['floats']:.2f}", f"{shares['floats']:.3f}"]  # fmt: skip

    def _rates(self, index: Any) -> tuple[float, float]:
        """Rows per second in and out."""
        started = time.perf_counter()
        index.add(self.codes)
        between = time.perf_counter()
        assert len(index.codes) == len(self.codes)
        n = len(self.codes)
        return n / (between - started), n / (time.perf_counter() - between)


def compare_engines(n_rows: int, n_queries: int, server: Any, chosen: str) -> None:
    bench = Bench(n_rows, n_queries)
    wide = bench.base.shape[1]
    with tempfile.TemporaryDirectory() as name:
        named = [e for e in engines(Path(name), server) if e[0].startswith(chosen)]
        rows = [bench.row(*engine) for engine in named]
    print(f"\n## Engines: {n_rows:,} rows, codes of {BITS} bits, shortlists of {bench.length}, "
          f"{n_queries} queries, k = {K}")  # fmt: skip
    print(f"bytes of a row: code {BITS // 8}, float16 {2 * wide}, float32 {4 * wide}\n")
    head = ["engine", "rows/s in", "rows/s out", "ms, codes", "ms, our scan",
            "ms, codes then vectors", "recall", "ms, its floats", "recall"]  # fmt: skip
    table(head, rows)


def near_share(distances: np.ndarray, exact: np.ndarray) -> float:
    return float(np.mean(distances <= exact[:, -1:]))


def million(n_rows: int, n_queries: int, server: Any) -> None:
    """Codes of 64 bits: full scan, lists, graph."""
    from sghash.adapters.databases.postgresql import PostgresIndex

    data = sghash.load_dataset("sift-photos", fetch=False)
    stream = PerturbedStream(np.asarray(data.base), n_rows, min(100_000, n_rows))
    model = sghash.SGH(64, random_state=0).fit(np.asarray(data.base)[:50_000].astype(np.float32))
    queries = np.asarray(data.queries)[: 2 * n_queries].astype(np.float32)
    query_codes = model.encode(queries)
    lists = PartitionedIndex.for_model(model, n_lists=max(16, int(n_rows**0.5)))
    first = stream.block(0)
    lists.add(model.encode(first), vectors=first)
    own = HammingIndex(64)
    options = {"n_bits": 64, "fingerprint": model.fingerprint_, "partitions": lists.partitions}
    with PostgresIndex.create(address_of(server), "million", **options) as index:
        copied = 0.0
        for _, vectors in stream.blocks():
            codes = model.encode(vectors)
            own.add(codes)
            started = time.perf_counter()
            index.add(codes, vectors=vectors)
            copied += time.perf_counter() - started
        started = time.perf_counter()
        index.cluster()
        clustered = time.perf_counter() - started
        started = time.perf_counter()
        index.create_graph()
        graphed = time.perf_counter() - started
        exact = own.search(query_codes, K).distances
        others, asked = slice(n_queries, 2 * n_queries), slice(0, n_queries)

        def choose(values: tuple[int, ...], name: str, **more: Any) -> int:
            for value in values:
                extra = {"vectors": queries[others]} if name == "probes" else {}
                found = index.search(query_codes[others], K, **{name: value}, **extra, **more)
                near = (found.distances <= exact[others][:, K - 1 :]).mean(axis=1)
                # Other queries will find a little less or more: 1.64 standard errors are spared.
                if near.mean() - 1.64 * near.std() / len(near) ** 0.5 >= NEAR:
                    break
            return value

        probes, breadth = choose(PROBES, "probes"), choose(BREADTHS, "ef_search", graph=True)
        kept: dict[str, list[np.ndarray]] = {"scan": [], "lists": [], "graph": []}

        def ask(name: str, **more: Any) -> Callable[[int], None]:
            def one(query: int) -> None:
                own_vector = {"vectors": queries[query : query + 1]} if name == "lists" else {}
                found = index.search(query_codes[query : query + 1], K, **own_vector, **more)
                kept[name].append(found.distances[0])

            return one

        times = milliseconds(
            {
                "scan": ask("scan"),
                "lists": ask("lists", probes=probes),
                "graph": ask("graph", graph=True, ef_search=breadth),
                "own": lambda query: own.search(query_codes[query : query + 1], K, threads=1),
            },
            n_queries,
        )
    shares = {name: near_share(np.stack(found), exact[asked]) for name, found in kept.items()}
    print(f"\n## PostgreSQL 18: {n_rows} rows of 64 bits, {lists.partitions.n_lists} lists, "
          f"{n_queries} queries, k = {K}")  # fmt: skip
    print(f"{n_rows / copied:,.0f} rows/s in with lists; clustered in {clustered:.0f} s, graph in "
          f"{graphed:.0f} s\n")  # fmt: skip
    rows = [
        [title, f"{times[name]:.2f}", f"{times['scan'] / times[name]:.1f}", share]
        for title, name, share in (
            ("stock, full scan", "scan", f"{shares['scan']:.3f}"),
            (f"stock, {probes} lists", "lists", f"{shares['lists']:.3f}"),
            (f"pgvector HNSW, ef_search {breadth}", "graph", f"{shares['graph']:.3f}"),
            ("our scan, in this process", "own", "1.000"),
        )
    ]
    table(["way", "ms per query", "times the full scan", "near"], rows)
    figures = dict(zip(TARGETS, (times["scan"] / times["lists"], shares["lists"]), strict=True))
    for name, target in TARGETS.items():
        print(line(name, figures[name], target))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["engines", "postgresql"])
    parser.add_argument("--engine", default="", help="only engines whose names begin so")
    options = parser.parse_args(arguments)
    from servers import running_server

    with ExitStack() as stack:
        server = stack.enter_context(running_server())
        import psycopg

        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
        if options.only != "postgresql":
            compare_engines(
                *((5000, 20) if options.quick else (100_000, 100)), server, options.engine
            )
        if options.only != "engines":
            million(*((20_000, 20) if options.quick else (1_000_000, 100)), server)


if __name__ == "__main__":
    main()
