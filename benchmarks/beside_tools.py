"""What people would pick instead: the default collection beside FAISS, hnswlib, usearch, turbovec.

    SGHASH_DATA=... python benchmarks/beside_tools.py            # 58,000 MiniLM vectors
    ... beside_tools.py --sets MiniLM SIFT --recall 0.95 --quick # others; does it run?

Every tool holds the same rows and is given the least effort (`efSearch`, `nprobe`, bits) that
reaches the wanted recall on the first half of the queries; the table is of the second half.
Recall10@10 against exact distances; bytes are those of the tool's own file (of our folder) per row;
microseconds are the median of one query at a time, processor time of one thread; seconds are
processor time of building; pgvector's are those of its server and of its client together. Tools
that are not installed are named and left out: `pip install '.[rivals]'`, and `make test-adapters`
for PostgreSQL.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash import Collection
from sghash.experiments.sets import QUICK_DIGITS, SIFT, TEXTS, load
from sghash.kernels.vectors.exact import exact_neighbors

SETS = {"MiniLM": TEXTS, "SIFT": SIFT}
K, TIMED = 10, 200
EFFORTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


class Tool(NamedTuple):
    """A way to search that was built: `search(queries, effort)` gives ids."""

    name: str
    search: Callable[[Any, int], Any]
    efforts: Sequence[int]
    n_bytes: float
    seconds: float
    clock: Callable[[], float] = time.process_time


def sghash_collection(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    began = time.process_time()
    collection = Collection.build(place / "c", base, metric=metric, target_recall=target)
    seconds = time.process_time() - began
    per_row = collection.stats()["bytes_per_row"]

    def search(queries: Any, effort: int) -> Any:
        return collection.search(queries, K, threads=1).ids

    yield Tool("sghash, no options", search, (0,), per_row, seconds)


def faiss_indexes(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    import faiss

    faiss.omp_set_num_threads(1)
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    n_lists = int(4 * len(base) ** 0.5)
    for name, text, option in (
        ("FAISS flat", "Flat", None),
        ("FAISS HNSW32", "HNSW32,Flat", "efSearch"),
        ("FAISS IVF, 8 bits a number", f"IVF{n_lists},SQ8", "nprobe"),
        ("FAISS IVF, PQ4 and float32", f"IVF{n_lists},PQ{base.shape[1] // 4}x4fs,RFlat", "nprobe"),
    ):
        began = time.process_time()
        index = faiss.index_factory(base.shape[1], text, kind)
        index.train(base)
        index.add(base)
        seconds = time.process_time() - began
        path = place / "faiss.index"
        faiss.write_index(index, str(path))
        space = faiss.ParameterSpace()
        if text.endswith("RFlat"):
            space.set_index_parameter(index, "k_factor_rf", 10)

        def search(queries: Any, effort: int, index: Any = index, option: Any = option) -> Any:
            if option:
                faiss.ParameterSpace().set_index_parameter(index, option, effort)
            return index.search(queries, K)[1]

        efforts = EFFORTS if option else (0,)
        yield Tool(name, search, efforts, path.stat().st_size / len(base), seconds)


def hnswlib_graph(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    import hnswlib

    began = time.process_time()
    index = hnswlib.Index("l2" if metric == "l2" else "ip", base.shape[1])
    index.init_index(len(base), M=16, ef_construction=200, random_seed=0)
    index.set_num_threads(1)
    index.add_items(base)
    seconds = time.process_time() - began
    index.save_index(str(place / "hnswlib.bin"))
    n_bytes = (place / "hnswlib.bin").stat().st_size / len(base)

    def search(queries: Any, effort: int) -> Any:
        index.set_ef(effort)
        return index.knn_query(queries, K, num_threads=1)[0].astype(np.int64)

    yield Tool("hnswlib, M = 16", search, EFFORTS, n_bytes, seconds)


def usearch_graphs(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    from usearch.index import Index

    for kind in ("f16", "i8"):
        began = time.process_time()
        index = Index(ndim=base.shape[1], metric="l2sq" if metric == "l2" else "cos", dtype=kind)
        index.add(np.arange(len(base)), base, threads=1)
        seconds = time.process_time() - began
        index.save(str(place / "usearch.bin"))
        n_bytes = (place / "usearch.bin").stat().st_size / len(base)

        def search(queries: Any, effort: int, index: Any = index) -> Any:
            index.expansion_search = effort
            keys = index.search(queries, K, threads=1).keys
            return np.asarray(keys, dtype=np.int64).reshape(len(queries), -1)

        yield Tool(f"usearch, {kind}", search, EFFORTS, n_bytes, seconds)


def turbovec_scans(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    import turbovec

    if metric == "l2":
        return
    sample = base[np.random.default_rng(0).choice(len(base), 1024, replace=False)]
    for bits in (2, 4):
        began = time.process_time()
        index = turbovec.TurboQuantIndex(base.shape[1], bits)
        index.calibrate(np.ascontiguousarray(sample))
        index.add(base)
        index.prepare()
        seconds = time.process_time() - began

        def search(queries: Any, effort: int, index: Any = index) -> Any:
            return np.asarray(index.search(np.ascontiguousarray(queries), K)[1], np.int64)

        n_bytes = len(index.to_bytes()) / len(base)
        yield Tool(f"turbovec, {bits} bits a number", search, (0,), n_bytes, seconds)


def pgvector_graph(base: Any, place: Path, metric: str, target: float) -> Iterator[Tool]:
    import psycopg

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "adapters"))
    from servers import running_server

    kind, distance = ("l2", "<->") if metric == "l2" else ("cosine", "<=>")
    with running_server() as server, psycopg.connect(server.address, autocommit=True) as link:
        busy = Path(f"/proc/{link.info.backend_pid}/schedstat")  # nanoseconds on a processor

        def clock() -> float:
            return time.process_time() + int(busy.read_text().split()[0]) / 1e9

        link.execute("CREATE EXTENSION vector")
        link.execute("SET max_parallel_maintenance_workers = 0")
        link.execute("SET maintenance_work_mem = '1GB'")
        began = clock()
        link.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, v halfvec({base.shape[1]}))")
        with link.cursor().copy("COPY t FROM STDIN") as copy:
            for i, row in enumerate(base):
                copy.write_row((i, str(row.tolist())))
        link.execute(f"CREATE INDEX ON t USING hnsw (v halfvec_{kind}_ops)")
        seconds = clock() - began
        (n_bytes,) = link.execute("SELECT pg_total_relation_size('t')").fetchone()

        def search(queries: Any, effort: int) -> Any:
            link.execute(f"SET hnsw.ef_search = {effort}")
            found = [
                link.execute(
                    f"SELECT id FROM t ORDER BY v {distance} %s::halfvec LIMIT {K}",
                    [str(query.tolist())], prepare=True,
                ).fetchall()
                for query in queries
            ]  # fmt: skip
            return np.asarray(found, dtype=np.int64)[:, :, 0]

        yield Tool("pgvector, halfvec HNSW", search, EFFORTS, n_bytes / len(base), seconds, clock)


TOOLS = {
    "sghash": sghash_collection,
    "faiss-cpu": faiss_indexes,
    "hnswlib": hnswlib_graph,
    "usearch": usearch_graphs,
    "turbovec": turbovec_scans,
    "psycopg": pgvector_graph,
}


def recall_of(found: Any, truth: Any) -> float:
    """Recall10@10."""
    return float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def least_effort(tool: Tool, queries: Any, truth: Any, wanted: float) -> int:
    """The least effort that finds what is wanted, else the most there is."""
    for effort in tool.efforts:
        if recall_of(tool.search(queries, effort), truth) >= wanted:
            return effort
    return tool.efforts[-1]


def microseconds(tool: Tool, queries: Any, effort: int) -> float:
    """Median processor time of one query at a time."""
    times = []
    for place in range(min(TIMED, len(queries))):
        began = tool.clock()
        tool.search(queries[place : place + 1], effort)
        times.append(tool.clock() - began)
    return float(np.median(times)) * 1e6


def measure(name: str, wanted: float, *, quick: bool) -> None:
    which = QUICK_DIGITS if quick else SETS[name]
    loaded = load(which)
    base, queries = (np.asarray(v, np.float32) for v in (loaded.base, loaded.queries))
    if which.metric == "cosine":
        base, queries = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (base, queries))
    truth = exact_neighbors(base, queries, K, metric=which.metric).ids
    half = len(queries) // 2
    print(f"\n{name}: {len(base):,} x {base.shape[1]}, float32 {4 * base.shape[1]:,} bytes a row")
    print(f"least effort for recall {wanted:g} on {half} queries, told of {len(queries) - half}")
    print(f"{'tool':28s} {'effort':>6s} {'recall':>7s} {'bytes':>7s} {'us':>8s} {'build s':>8s}")
    for package, tools in TOOLS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                for tool in tools(base, Path(folder), which.metric, wanted):
                    effort = least_effort(tool, queries[:half], truth[:half], wanted)
                    recall = recall_of(tool.search(queries[half:], effort), truth[half:])
                    spent = microseconds(tool, queries[half:], effort)
                    print(f"{tool.name:28s} {effort or '':>6} {recall:7.3f} {tool.n_bytes:7.0f} "
                          f"{spent:8.0f} {tool.seconds:8.1f}", flush=True)  # fmt: skip
            except ImportError:
                print(f"{package} is not installed: pip install {package}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["MiniLM"])
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    known = []
    for package in TOOLS:
        try:
            known.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    print(", ".join(known))
    for name in ["digits"] if options.quick else options.sets:
        measure(name, options.recall, quick=options.quick)


if __name__ == "__main__":
    main()
