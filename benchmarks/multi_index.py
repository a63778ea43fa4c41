"""Few codes visited of very many: tables of keys and lists beside scans; speed, memory, growth.

    python benchmarks/multi_index.py                   # 1 and 10 million codes of a stream
    python benchmarks/multi_index.py --large           # 100 million as well, below half an hour
    python benchmarks/multi_index.py --quick           # 200,000 and 1 million, does it run?
    python benchmarks/multi_index.py --report          # print what has been measured

Codes of 64 bits by SGH of SIFT photos, perturbed as in `sghash reproduce`; queries are photos that
nobody learned from. Codes are written to a file as the stream gives them, and mapped: vectors are
never held. One thread, processor time, rounds that take turns; each figure is the best of its
rounds. Every exact answer is compared with the scan's. Lists are asked for the share of their
answers that are no farther than the exact k-th; how many lists that takes is chosen on other
queries. An exponent is the slope of log time over log rows between the smallest and the largest: 1
is linear. Memory is what a process holds beside the mapped codes while it builds. Codes and figures
stay in build/multi-index: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from measuring.verdicts import Target, at_least, at_most, line

import sghash
from sghash.evaluation import append_row, format_table, key_of, make_row, read_rows
from sghash.experiments.streams import PerturbedStream
from sghash.index import HammingIndex, MultiIndex, PartitionedIndex
from sghash.index.rows import RowIds

N_BITS, K = 64, 10
FOLDER = Path("build/multi-index")
BLOCK_ROWS = 100_000
ROWS, QUICK_ROWS, LARGE_ROWS = [10**6, 10**7], [200_000, 10**6], 10**8
RADII = (0, 2, 4, 6, 10, 14)
JOIN_ROWS, JOIN_RADII = 10**6, (0, 2)
ROUNDS, N_QUERIES, FEW = 3, 200, 10
PROBES = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
#: Share of the answers that are to be no farther than the exact k-th.
NEAR = 0.9
#: What 100 million codes are held to: name of the figure, and its bound.
TARGETS: dict[str, Target] = {
    "times our scan of one query: MultiIndex": at_least(5.0),
    "milliseconds of one query: lists": at_most(2.0),
    "answers no farther than the exact k-th: lists": at_least(NEAR),
    "gigabytes beside the codes": at_most(3.0),
    "minutes to encode and build": at_most(30.0),
}


def stream_codes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n codes of the stream, written once and mapped, and codes of queries."""
    data = sghash.load_dataset("sift-photos", fetch=False)
    folder, path = FOLDER / "model", FOLDER / "codes.bin"
    if not folder.exists():
        model = sghash.SGH(N_BITS, random_state=0).fit(np.asarray(data.base, dtype=np.float32))
        model.save(folder)
    model = sghash.load_model(folder)
    row_bytes = N_BITS // 8
    done = path.stat().st_size // (row_bytes * BLOCK_ROWS) if path.exists() else 0
    began = time.process_time()
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.seek(done * row_bytes * BLOCK_ROWS)
        stream = PerturbedStream(np.asarray(data.base), n, BLOCK_ROWS)
        for _, rows in stream.blocks(done):
            file.write(model.encode(rows).tobytes())
    if done * BLOCK_ROWS < n:
        note({"stage": "encoding", "rows": n, "from": done * BLOCK_ROWS},
             {"seconds": time.process_time() - began})  # fmt: skip
    codes = np.memmap(path, dtype=np.uint8, mode="r", shape=(n, row_bytes))
    return codes, model.encode(np.asarray(data.queries, dtype=np.float32)[: 2 * N_QUERIES])


def note(settings: dict[str, Any], values: dict[str, float]) -> None:
    append_row(FOLDER / "rows.jsonl", make_row(key_of(settings), settings, values))


def noted(stage: str) -> list[dict[str, Any]]:
    path = FOLDER / "rows.jsonl"
    rows = read_rows(path) if path.exists() else []
    return [row for row in rows if row["settings"]["stage"] == stage]


class Watched:
    """Processor seconds of what is done inside, and the most anonymous memory meanwhile."""

    def __enter__(self) -> Watched:
        self._done, self._before, self.peak = threading.Event(), anonymous_bytes(), 0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        self._began = time.process_time()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self.peak = max(self.peak, anonymous_bytes() - self._before)

    def __exit__(self, *error: object) -> None:
        self.seconds = time.process_time() - self._began
        self._done.set()
        self._thread.join()


def anonymous_bytes() -> int:
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith("RssAnon"):
            return int(text.split()[1]) * 1024
    raise RuntimeError("this system does not tell RssAnon")


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def one_by_one(search: Callable[..., Any], queries: np.ndarray) -> Callable[[], Any]:
    return lambda: [search(query[None]) for query in queries]


def best_rounds(calls: dict[str, tuple[int, Callable[[], Any]]]) -> dict[str, float]:
    """Microseconds of a query by name, the best round of each; rounds take turns."""
    best = dict.fromkeys(calls, np.inf)
    for number in range(ROUNDS + 1):
        for name, (n_queries, call) in calls.items():
            seconds, _ = timed(call)
            if number:  # the first one compiles, and wakes the memory
                best[name] = min(best[name], seconds / n_queries * 1e6)
    return best


def measure(n: int) -> None:
    """Everything about n codes, one kind of index after the other; each is noted at once."""
    stages = {"tables": measure_tables, "lists": measure_lists, "FAISS": measure_faiss}
    known = {(r["settings"]["stage"], r["settings"]["rows"]) for s in stages for r in noted(s)}
    for stage, call in stages.items():
        if (stage, n) not in known:
            codes, queries = stream_codes(n)
            print(f"{n:,} codes: {stage}", flush=True)
            note({"stage": stage, "rows": n}, call(codes, queries))


def measure_tables(codes: np.ndarray, queries: np.ndarray) -> dict[str, float]:
    ids, queries = RowIds(len(codes)), queries[:N_QUERIES]
    flat, multi = HammingIndex(N_BITS).over(codes, ids), MultiIndex(N_BITS).over(codes, ids)
    warm = MultiIndex(N_BITS).over(codes[:1000], RowIds(1000))
    warm.build()
    warm.search(queries[:1], K, way="tables")  # compiles
    with Watched() as watched:
        multi.build()
    few = queries[:FEW]
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "scan, one query": (FEW, one_by_one(lambda q: flat.search(q, K, threads=1), few)),
        "MultiIndex, one query": (
            N_QUERIES, one_by_one(lambda q: multi.search(q, K, threads=1), queries)
        ),
        "scan, all queries": (N_QUERIES, lambda: flat.search(queries, K, threads=1)),
        "MultiIndex, all queries": (N_QUERIES, lambda: multi.search(queries, K, threads=1)),
    }  # fmt: skip
    for radius in RADII:
        calls[f"scan, radius {radius}"] = (
            FEW, one_by_one(lambda q, r=radius: flat.range_search(q, r, threads=1), few)
        )  # fmt: skip
        calls[f"MultiIndex, radius {radius}"] = (
            FEW, one_by_one(lambda q, r=radius: multi.range_search(q, r, threads=1), few)
        )  # fmt: skip
    check(flat, multi, queries[:50])
    found = best_rounds(calls)
    print(f"the first query:\n{multi.explain(queries[0], K)}", flush=True)
    assert multi.tables is not None
    return found | {
        "build seconds": watched.seconds, "build bytes": watched.peak,
        "bytes": multi.tables.nbytes / len(codes) + codes.shape[1],
    }  # fmt: skip


def measure_lists(codes: np.ndarray, queries: np.ndarray) -> dict[str, float]:
    """Lists of codes alone, as many visited as give the share that is asked for."""
    ids, n_bytes = RowIds(len(codes)), codes.shape[1]
    PartitionedIndex(n_bytes, n_bits=N_BITS).over(codes[:2000], RowIds(2000))  # compiles
    with Watched() as watched:
        lists = PartitionedIndex(n_bytes, n_bits=N_BITS).over(codes, ids)
    flat = HammingIndex(N_BITS).over(codes, ids)
    kth = flat.search(queries, K, threads=1).distances[:, -1:]
    chosen, asked = queries[N_QUERIES:], queries[:N_QUERIES]

    def share(some: np.ndarray, bounds: np.ndarray, probes: int) -> float:
        found = lists.search(some, K, probes=probes, threads=1).distances
        return float((found <= bounds).mean())

    assert lists.partitions is not None
    probes = next(
        (p for p in PROBES if share(chosen, kth[N_QUERIES:], p) >= NEAR + 0.01), PROBES[-1]
    )
    search = one_by_one(lambda q: lists.search(q, K, probes=probes, threads=1), asked)
    told = lists.explain(asked[0], K, probes=probes)
    print(f"the first query:\n{told}", flush=True)
    return best_rounds({"lists, one query": (N_QUERIES, search)}) | {
        "near": share(asked, kth[:N_QUERIES], probes), "probes": probes,
        "n_lists": lists.partitions.n_lists, "build seconds": watched.seconds,
        "build bytes": watched.peak, "bytes": lists.nbytes / len(codes),
    }  # fmt: skip


def measure_faiss(codes: np.ndarray, queries: np.ndarray) -> dict[str, float]:
    rival = faiss.IndexBinaryFlat(N_BITS)
    for start in range(0, len(codes), 10**6):
        rival.add(np.ascontiguousarray(codes[start : start + 10**6]))
    search = one_by_one(lambda q: rival.search(q, K), queries[:FEW])
    return best_rounds({"FAISS IndexBinaryFlat, one query": (FEW, search)})


def check(flat: HammingIndex, multi: MultiIndex, queries: np.ndarray) -> None:
    """Both answer the same, ties included, or the figures mean nothing."""
    for got, right in zip(multi.search(queries, K), flat.search(queries, K), strict=True):
        np.testing.assert_array_equal(got, right)
    for radius in RADII[:4]:
        found, right = (index.range_search(queries, radius) for index in (multi, flat))
        np.testing.assert_array_equal(found.ids, right.ids)


def join(n: int) -> None:
    """All pairs of n codes, through tables and by scans of some of them."""
    codes, _ = stream_codes(n)
    index = MultiIndex(N_BITS)
    index.add(codes)
    index.build()
    rows, some, flat = [], codes[:2000], HammingIndex(N_BITS)
    flat.add(codes)
    for radius in JOIN_RADII:
        index.similarity_join(radius, threads=1)
        seconds, pairs = timed(lambda r=radius: index.similarity_join(r, threads=1))
        scan, _ = timed(lambda r=radius: flat.range_search(some, r, threads=1))
        scan *= n / len(some) / 2  # a pair is looked for once
        rows.append([str(radius), f"{len(pairs):,}", f"{seconds:.1f}", f"{scan:.0f}",
                     f"{scan / seconds:.0f}"])  # fmt: skip
    print(f"\nall pairs of {n:,} codes, seconds (the scan's from 2,000 rows)")
    print(format_table(["radius", "pairs", "MultiIndex", "scan", "times"], rows))


def report(sizes: list[int]) -> None:
    by_size: dict[int, dict[str, float]] = {}
    for n in sizes:
        stages = [{r["settings"]["rows"]: r["values"] for r in noted(s)} for s in STAGES]
        if all(n in stage for stage in stages):
            tables, lists, rival = (stage[n] for stage in stages)
            by_size[n] = _figures(n, tables, lists, rival)
    if not by_size:
        print("nothing has been measured")
        return
    known = sorted(by_size)
    growth = np.log(known[-1] / known[0]) if len(known) > 1 else np.nan
    rows = []
    for name in by_size[known[0]]:
        values = [by_size[n][name] for n in known]
        slope = np.log(values[-1] / values[0]) / growth if name.startswith("us:") else np.nan
        cells = (f"{v:,.0f}" if v >= 100 else f"{v:,.3g}" for v in values)
        rows.append([name.removeprefix("us: "), *cells, "" if np.isnan(slope) else f"{slope:.2f}"])
    print(f"\n{N_BITS} bits, k = {K}, microseconds of a query unless said otherwise, one thread")
    print(format_table(["codes", *(f"{n:,}" for n in known), "exponent"], rows))
    if LARGE_ROWS in by_size:
        for name, target in TARGETS.items():
            print(line(name, by_size[LARGE_ROWS][name], target))


STAGES = ("tables", "lists", "FAISS")


def _figures(
    n: int, tables: dict[str, float], lists: dict[str, float], rival: dict[str, float]
) -> dict[str, float]:
    """All that is printed of one number of codes."""
    timed_ones = {k: v for some in (tables, lists, rival) for k, v in some.items() if "," in k}
    encoding = sum(r["values"]["seconds"] for r in noted("encoding") if r["settings"]["rows"] <= n)
    building = tables["build seconds"] + lists["build seconds"]
    return {f"us: {name}": value for name, value in timed_ones.items()} | {
        "lists visited": lists["probes"], "lists": lists["n_lists"],
        "answers no farther than the exact k-th: lists": lists["near"],
        "milliseconds of one query: lists": lists["lists, one query"] / 1e3,
        "times our scan of one query: MultiIndex":
            tables["scan, one query"] / tables["MultiIndex, one query"],
        "times our scan, widest radius: MultiIndex":
            tables[f"scan, radius {RADII[-1]}"] / tables[f"MultiIndex, radius {RADII[-1]}"],
        "bytes per code, all: MultiIndex": tables["bytes"],
        "bytes per code, all: lists": lists["bytes"],
        "seconds to build: MultiIndex": tables["build seconds"],
        "seconds to build: lists": lists["build seconds"],
        "gigabytes beside the codes": max(tables["build bytes"], lists["build bytes"]) / 1e9,
        "minutes to encode and build": (encoding + building) / 60,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true", help="100 million codes as well")
    parser.add_argument("--quick", action="store_true", help="fewer codes: does it run?")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    sizes = (QUICK_ROWS if options.quick else ROWS) + [LARGE_ROWS] * options.large
    if not options.report:
        for n in sizes:
            measure(n)
    report(sizes + [LARGE_ROWS] * options.report)
    if not options.report:
        join(QUICK_ROWS[0] if options.quick else JOIN_ROWS)


if __name__ == "__main__":
    main()
