"""Search that visits few codes beside graphs and inverted files: speed at equal recall, and bytes.

    python benchmarks/partitions.py                    # SIFT and MiniLM, all methods
    python benchmarks/partitions.py --quick            # 20,000 rows of each, a minute
    python benchmarks/partitions.py --report           # print what has been measured

One thread everywhere. A method is a curve of settings; for each recall asked for, the fastest
setting that reaches it counts. One query at a time: all methods in turn, several rounds, the best
round of each counts, so that what else the machine does falls on all of them. Bytes are all that a
method must hold to answer: vectors, graph, codes, lists, ids. Ours: codes of SGH sharpened by two
sweeps, lists by k-means, float16 vectors; its settings are the curve that `measure` found on other
queries. What is built and measured stays in build/partitions: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
from measuring.verdicts import at_least, at_most, line

import sghash
from sghash.evaluation import append_row, format_table, key_of, make_row, read_rows
from sghash.evaluation.metrics import recall
from sghash.index import PartitionedIndex, load_index
from sghash.index.lists.curve import Point

K, N_BITS, SWEEPS = 10, 128, 2
FOLDER = Path("build/partitions")
DATASETS = ["sift-photos", "minilm-wordnet"]
RECALLS = (0.90, 0.95, 0.99)
N_QUERIES, ROUNDS = 250, 3
EFS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
PROBES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
#: Targets beside HNSWFlat by recall, one query at a time.
FACTORS = {"sift-photos": (2.0, 2.0, 1.2), "minilm-wordnet": (1.3, 1.3, 1.3)}


class Task(NamedTuple):
    """A data set, its true neighbours, and where to build."""

    name: str
    metric: str
    base: np.ndarray
    queries: np.ndarray
    held_out: np.ndarray
    truth: np.ndarray
    folder: Path


class Method(NamedTuple):
    """A method that is ready: settings by name, how to search with each, bytes per vector."""

    name: str
    settings: dict[str, Callable[[np.ndarray], np.ndarray]]
    n_bytes: float


def load(name: str, quick: bool) -> Task:
    data = sghash.load_dataset(name, fetch=False)
    base = np.asarray(data.base, dtype=np.float32)[: 20_000 if quick else None]
    queries = np.asarray(data.queries, dtype=np.float32)[: 2 * N_QUERIES]
    if data.metric == "cosine":
        base, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (base, queries))
    queries, held_out = queries[:N_QUERIES], queries[N_QUERIES:]
    truth = sghash.ground_truth(base, queries, K, metric=data.metric).ids
    folder = FOLDER / (name + "-quick" * quick)
    return Task(name, data.metric, base, queries, held_out, truth, folder)


def ours(task: Task) -> Method:
    folder, path = task.folder / "model", task.folder / "sghash.index"
    if not path.exists():
        model = sghash.SGH(N_BITS, metric=task.metric, random_state=0).fit(task.base)
        model.save(folder, overwrite=True)
        index = PartitionedIndex.for_model(model, metric=task.metric)
        index.add(model.encode(task.base, sweeps=SWEEPS), vectors=task.base)
        index.save(path)
    index = load_index(path)
    kept = task.base.astype(np.float16)

    if index.curve is None:
        truth = sghash.ground_truth(task.base, task.held_out, K, metric=task.metric).ids
        index.measure(task.held_out, truth, kept=kept)
        index.save(path)

    def setting(point: Point) -> Callable[[np.ndarray], np.ndarray]:
        options = {"probes": point.probes, "shortlist": point.shortlist, "margin": point.margin}
        return lambda queries: index.search(queries, K, kept=kept, threads=1, **options).ids

    settings = {
        f"{p.probes} lists, {p.shortlist} rows, margin {p.margin:.3g}": setting(p)
        for p in index.curve.points
    }
    return Method("sghash", settings, (index.nbytes + kept.nbytes) / len(task.base))


def _faiss(task: Task, name: str, make: Callable[[int, int], Any]) -> Any:
    path = task.folder / f"{name}.faiss"
    if not path.exists():
        kind = faiss.METRIC_L2 if task.metric == "l2" else faiss.METRIC_INNER_PRODUCT
        index = make(task.base.shape[1], kind)
        if not index.is_trained:
            index.train(task.base)
        index.add(task.base)
        faiss.write_index(index, str(path))
    return faiss.read_index(str(path)), path.stat().st_size / len(task.base)


def hnsw(task: Task) -> Method:
    def make(width: int, kind: int) -> Any:
        index = faiss.IndexHNSWFlat(width, 32, kind)
        index.hnsw.efConstruction = 100
        return index

    index, size = _faiss(task, "hnsw", make)

    def setting(ef: int) -> Callable[[np.ndarray], np.ndarray]:
        def search(queries: np.ndarray) -> np.ndarray:
            index.hnsw.efSearch = ef
            return index.search(queries, K)[1]

        return search

    return Method("FAISS HNSWFlat", {f"ef {ef}": setting(ef) for ef in EFS}, size)


def ivf(task: Task) -> Method:
    n_lists = round(2 * np.sqrt(len(task.base)))
    parts = 64 if task.base.shape[1] % 64 == 0 else 32
    text = f"IVF{n_lists},PQ{parts}x4fs,Refine(SQfp16)"
    index, size = _faiss(task, "ivf", lambda d, kind: faiss.index_factory(d, text, kind))
    inner = faiss.extract_index_ivf(index)

    def setting(probes: int, factor: int) -> Callable[[np.ndarray], np.ndarray]:
        def search(queries: np.ndarray) -> np.ndarray:
            inner.nprobe, index.k_factor = probes, factor
            return index.search(queries, K)[1]

        return search

    settings = {f"{p} lists, {10 * f} rows": setting(p, f) for p in PROBES for f in (3, 6, 10, 20)}
    return Method("FAISS IVF,PQ4fs,Refine", settings, size)


def graph_hnswlib(task: Task) -> Method:
    import hnswlib

    index = hnswlib.Index(space="l2" if task.metric == "l2" else "ip", dim=task.base.shape[1])
    path = task.folder / "hnswlib.bin"
    if path.exists():
        index.load_index(str(path), max_elements=len(task.base))
    else:
        index.init_index(max_elements=len(task.base), ef_construction=100, M=32)
        index.add_items(task.base, num_threads=1)
        index.save_index(str(path))

    def setting(ef: int) -> Callable[[np.ndarray], np.ndarray]:
        def search(queries: np.ndarray) -> np.ndarray:
            index.set_ef(ef)
            return index.knn_query(queries, K, num_threads=1)[0].astype(np.int64)

        return search

    settings = {f"ef {ef}": setting(ef) for ef in EFS}
    return Method("hnswlib", settings, path.stat().st_size / len(task.base))


def graph_usearch(task: Task) -> Method:
    from usearch.index import Index

    path = task.folder / "usearch.bin"
    metric = "l2sq" if task.metric == "l2" else "ip"
    index = Index(ndim=task.base.shape[1], metric=metric, dtype="f16", connectivity=32,
                  expansion_add=100)  # fmt: skip
    if path.exists():
        index.load(str(path))
    else:
        index.add(np.arange(len(task.base)), task.base, threads=1)
        index.save(str(path))

    def setting(ef: int) -> Callable[[np.ndarray], np.ndarray]:
        def search(queries: np.ndarray) -> np.ndarray:
            index.expansion_search = ef
            keys = index.search(queries, K, threads=1).keys
            return np.asarray(keys, dtype=np.int64).reshape(len(queries), -1)

        return search

    settings = {f"ef {ef}": setting(ef) for ef in EFS}
    return Method("usearch", settings, path.stat().st_size / len(task.base))


METHODS = {
    "sghash": ours, "FAISS HNSWFlat": hnsw, "FAISS IVF,PQ4fs,Refine": ivf,
    "hnswlib": graph_hnswlib, "usearch": graph_usearch,
}  # fmt: skip


def quickest_settings(task: Task, method: Method) -> dict[float, str]:
    """For each recall, the setting that reaches it in the least time, in one call."""
    found = []
    for name, search in method.settings.items():
        ids = search(task.queries)
        started = time.process_time()
        search(task.queries)
        spent = time.process_time() - started
        found.append((spent, recall(task.truth, ids, k=K, n=K), name))
    chosen = {}
    for wanted in RECALLS:
        reaching = sorted((spent, name) for spent, got, name in found if got >= wanted)
        if reaching:
            chosen[wanted] = reaching[0][1]
    return chosen


def measure(task: Task, methods: list[Method], wanted: float, chosen: dict[str, str]) -> None:
    """All methods in turn at one recall: queries one at a time, and all in one call."""
    single, many = dict.fromkeys(chosen, np.inf), dict.fromkeys(chosen, np.inf)
    by_name = {method.name: method for method in methods}
    for _ in range(ROUNDS):
        for name, setting in chosen.items():
            search = by_name[name].settings[setting]
            search(task.queries[:5])
            started = time.process_time()
            for i in range(len(task.queries)):
                search(task.queries[i : i + 1])
            single[name] = min(single[name], time.process_time() - started)
            started = time.process_time()
            search(task.queries)
            many[name] = min(many[name], time.process_time() - started)
    for name, setting in chosen.items():
        ids = by_name[name].settings[setting](task.queries)
        values = {
            "recall": recall(task.truth, ids, k=K, n=K),
            "single": len(task.queries) / single[name],
            "many": len(task.queries) / many[name],
            "n_bytes": by_name[name].n_bytes,
        }
        settings = {"set": task.folder.name, "method": name, "wanted": wanted, "setting": setting}
        append_row(FOLDER / "rows.jsonl", make_row(key_of(settings), settings, values))


def run(name: str, quick: bool, chosen_methods: list[str]) -> None:
    task = load(name, quick)
    task.folder.mkdir(parents=True, exist_ok=True)
    rows = [row["settings"] for row in rows_of(task.folder.name)]
    left = [
        wanted for wanted in RECALLS
        if {"sghash", *chosen_methods} - {row["method"] for row in rows if row["wanted"] == wanted}
    ]  # fmt: skip
    if not left:
        return
    methods = []
    for method in chosen_methods:
        print(f"{task.folder.name}: {method}", flush=True)
        methods.append(METHODS[method](task))
    settings = {method.name: quickest_settings(task, method) for method in methods}
    for wanted in left:
        chosen = {m: s[wanted] for m, s in settings.items() if wanted in s}
        measure(task, methods, wanted, chosen)


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a set; of a method measured twice at one recall, the last."""
    rows = [row for row in read_rows(FOLDER / "rows.jsonl") if row["settings"]["set"] == name]
    return list({(r["settings"]["wanted"], r["settings"]["method"]): r for r in rows}.values())


def report(name: str, quick: bool) -> None:
    rows = rows_of(name + "-quick" * quick)
    lines = []
    for row in sorted(rows, key=lambda row: row["settings"]["wanted"]):
        v = row["values"]
        lines.append([
            f"{row['settings']['wanted']:.2f}", row["settings"]["method"],
            row["settings"]["setting"].removesuffix(", margin 1e+30"),
            f"{v['recall']:.3f}", f"{v['single']:,.0f}",
            f"{v['many']:,.0f}", f"{v['n_bytes']:.0f}",
        ])  # fmt: skip
    print(f"\n{name}, one thread, queries per second of processor time")
    print(format_table(
        ["wanted", "method", "setting", "Recall10@10", "one at a time", "one call", "bytes/vector"],
        lines,
    ))  # fmt: skip
    for wanted, factor in zip(RECALLS, FACTORS[name], strict=True):
        values = {
            row["settings"]["method"]: row["values"]
            for row in rows if row["settings"]["wanted"] == wanted
        }  # fmt: skip
        if "sghash" not in values:
            print(f"recall {wanted}: not reached by sghash")
            continue
        mine = values.pop("sghash")
        for rival, other in values.items():
            bar = factor if rival == "FAISS HNSWFlat" else 1.2
            what = f"recall {wanted}, one at a time, over {rival}"
            print(line(what, mine["single"] / other["single"], at_least(bar)))
            what = f"recall {wanted}, one call, over {rival}"
            print(line(what, mine["many"] / other["many"], at_least(1.0)))
            if rival == "FAISS HNSWFlat":
                print(line("bytes beside its", mine["n_bytes"] / other["n_bytes"], at_most(0.45)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--quick", action="store_true", help="20,000 rows of each set")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    for name in options.datasets:
        if not options.report:
            run(name, options.quick, options.methods)
        report(name, options.quick)


if __name__ == "__main__":
    main()
