"""Queries per second of the whole pipeline, at the recall it has, beside FAISS; bytes per vector.

A search that may miss something has a speed only beside its recall, so both are measured here, in
one run: the recall is `evaluation`'s, the rows are those of the experiments.

    python benchmarks/collection_recall_qps.py                     # both data sets, 64 and 128 bits
    python benchmarks/collection_recall_qps.py --datasets minilm-wordnet --bits 64
    python benchmarks/collection_recall_qps.py --fresh             # learn, build and measure anew
    python benchmarks/collection_recall_qps.py --again             # measure anew what is built
    python benchmarks/collection_recall_qps.py --report            # print and draw what is there

The collection keeps float16 vectors and ends with exact distances; what varies is how many rows
its shortlist has. FAISS: IVFFlat by `nprobe`, HNSWFlat (M = 32, efConstruction = 80) by `efSearch`,
RaBitQ with queries of 4 bits, alone and refined by float16 vectors by `k_factor`. Everything is
built on all cores and searched by one thread, 1000 queries in one call and 100 one by one; of up to
five repetitions the best counts, and lines join the settings that no other of the same method
beats. Recall10@10 is the share of the true ten nearest among the ten returned.
Bytes per vector are those of the files, which hold everything but FAISS's working memory and ours
(1 byte per vector when every row is scored in L2). Data sets are looked for in SGHASH_DATA; models
learn from the base, never from queries.

What is built stays in build/collection_recall_qps, and so does every measured row: a run that was
interrupted continues.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np

import sghash
from sghash import Collection
from sghash.evaluation import append_row, format_table, key_of, make_row, read_rows
from sghash.evaluation.metrics import recall
from sghash.validation import available_cores

K = 10
N_QUERIES, N_SINGLE = 1000, 100
REPETITIONS, SECONDS = 5, 20.0
DATASETS = ["sift-photos", "minilm-wordnet"]
FOLDER = Path("build/collection_recall_qps")
SHORTLISTS = (20, 50, 100, 200, 500, 1000, 2000, (2000, 200), ("all", 50), ("all", 200))
NPROBES = (1, 2, 4, 8, 16, 32, 64)
EFS = (10, 20, 40, 80, 160, 320)
FACTORS = (1, 2, 5, 10, 20, 50)
QUERY_BITS = 4


class Setting(NamedTuple):
    """One point of a method's curve: how to search, once the method is built."""

    name: str
    search: Callable[[np.ndarray], np.ndarray]


class Built(NamedTuple):
    """A method that is ready: its settings, and what it cost."""

    settings: list[Setting]
    n_bytes: float
    seconds: float


class Task(NamedTuple):
    """A data set: base and queries (float32), their true neighbours, and where to build."""

    name: str
    metric: str
    base: np.ndarray
    queries: np.ndarray
    truth: np.ndarray
    folder: Path


def load(name: str) -> Task:
    data = sghash.load_dataset(name, fetch=False)
    base, queries = (np.asarray(a, dtype=np.float32) for a in (data.base, data.queries))
    queries = queries[:N_QUERIES]
    truth = sghash.ground_truth(base, queries, K, metric=data.metric).ids
    return Task(name, data.metric, base, queries, truth, FOLDER / name)


def ours(task: Task, n_bits: int) -> Built:
    path = task.folder / f"sghash-{n_bits}"

    def build() -> None:
        model = sghash.SGH(n_bits=n_bits, metric=task.metric, random_state=0).fit(task.base)
        with Collection.create(
            path, model, keep_vectors="float16", metric=task.metric
        ) as collection:
            collection.add(task.base)
            collection.compact()

    seconds = once(path, build)
    collection = Collection.open(path)

    def setting(shortlist: Any) -> Setting:
        return Setting(
            f"shortlist {shortlist}",
            lambda queries: (
                collection.search(queries, K, rerank="vectors", shortlist=shortlist, threads=1).ids
            ),
        )

    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Built([setting(shortlist) for shortlist in SHORTLISTS], size / len(task.base), seconds)


def rival(
    task: Task,
    name: str,
    make: Callable[[int, int, np.ndarray], Any],
    settings: Callable[[Any], Iterator[tuple[str, Callable[[], None]]]],
) -> Built:
    """A FAISS index, built once and kept; `settings` yields names and what to set."""
    path = task.folder / f"{name}.faiss"
    kind = faiss.METRIC_L2 if task.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    unit = task.metric == "cosine"

    def build() -> None:
        base = _unit(task.base) if unit else task.base
        index = make(base.shape[1], kind, base)
        index.add(base)
        faiss.write_index(index, str(path))

    seconds = once(path, build)
    index = faiss.read_index(str(path))

    def setting(name: str, prepare: Callable[[], None]) -> Setting:
        def search(queries: np.ndarray) -> np.ndarray:
            prepare()
            return index.search(_unit(queries) if unit else queries, K)[1]

        return Setting(name, search)

    found = [setting(name, prepare) for name, prepare in settings(index)]
    return Built(found, path.stat().st_size / len(task.base), seconds)


def make_ivf(width: int, kind: int, base: np.ndarray) -> Any:
    lists = int(4 * np.sqrt(len(base)))
    index = faiss.IndexIVFFlat(faiss.IndexFlat(width, kind), width, lists, kind)
    index.train(base[:: max(1, len(base) // (40 * lists))])
    return index


def make_hnsw(width: int, kind: int, base: np.ndarray) -> Any:
    index = faiss.IndexHNSWFlat(width, 32, kind)
    index.hnsw.efConstruction = 80
    return index


def make_rabitq(width: int, kind: int, base: np.ndarray) -> Any:
    index = faiss.IndexRaBitQ(width, kind)
    index.train(base)
    return index


def make_refined(width: int, kind: int, base: np.ndarray) -> Any:
    index = faiss.index_factory(width, "RaBitQ,Refine(SQfp16)", kind)
    index.train(base)
    return index


def each(obj: Any, name: str, values: tuple[int, ...]) -> Iterator[tuple[str, Callable[[], None]]]:
    for value in values:
        yield f"{name} {value}", lambda value=value: setattr(obj, name, value)


def rabitq_settings(index: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    index.qb = QUERY_BITS
    yield "alone", lambda: None


def refined_settings(index: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    faiss.downcast_index(index.base_index).qb = QUERY_BITS
    yield from each(index, "k_factor", FACTORS)


RIVALS = {
    "FAISS IVFFlat": ("ivf", make_ivf, lambda index: each(index, "nprobe", NPROBES)),
    "FAISS HNSWFlat": ("hnsw", make_hnsw, lambda index: each(index.hnsw, "efSearch", EFS)),
    "FAISS RaBitQ": ("rabitq", make_rabitq, rabitq_settings),
    "FAISS RaBitQ + refine": ("rabitq-refine", make_refined, refined_settings),
}


def once(path: Path, build: Callable[[], None]) -> float:
    """Build what is not there yet; return the seconds it took, then or earlier."""
    note = path.with_suffix(".seconds")
    if not note.exists():
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"building {path}", flush=True)
        started = time.perf_counter()
        faiss.omp_set_num_threads(available_cores())
        build()
        faiss.omp_set_num_threads(1)
        note.write_text(f"{time.perf_counter() - started:.1f}")
    return float(note.read_text())


def best_seconds(run: Callable[[], Any]) -> float:
    """The best of five repetitions, of fewer where they take long."""
    best, begun = np.inf, time.perf_counter()
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
        if time.perf_counter() - begun > SECONDS:
            break
    return best


def measure(setting: Setting, task: Task) -> dict[str, float]:
    some = task.queries[:N_SINGLE]
    ids = np.concatenate([setting.search(some), setting.search(task.queries)[len(some) :]])
    together = best_seconds(lambda: setting.search(task.queries))
    single = best_seconds(lambda: [setting.search(query[None]) for query in some])
    return {
        "recall": recall(task.truth, ids, k=K, n=K),
        "qps": len(task.queries) / together,
        "qps_single": len(some) / single,
    }


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def methods_of(task: Task, bits: list[int]) -> Iterator[tuple[str, Callable[[], Built]]]:
    for n_bits in bits:
        yield f"sghash {n_bits} bits", partial(ours, task, n_bits)
    for method, about in RIVALS.items():
        yield method, partial(rival, task, *about)


def measure_all(names: list[str], bits: list[int]) -> None:
    for name in names:
        task = load(name)
        done = {row["key"] for row in rows_of(name)}
        for method, build in methods_of(task, bits):
            built = build()
            for setting in built.settings:
                settings = {"dataset": name, "method": method, "setting": setting.name}
                key = key_of(["collection_recall_qps", settings])
                if key in done:
                    continue
                values = {"n_bytes": built.n_bytes, "build_seconds": built.seconds}
                values |= measure(setting, task)
                append_row(FOLDER / "rows.jsonl", make_row(key, settings, values))
                print(f"{name}, {method}, {setting.name}: recall {values['recall']:.3f}, "
                      f"{values['qps']:,.0f} queries/s", flush=True)  # fmt: skip


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a set; those of an older version of this file have no values and are left out."""
    rows = [row for row in read_rows(FOLDER / "rows.jsonl") if "values" in row]
    return [row for row in rows if row["settings"]["dataset"] == name]


def report(names: list[str]) -> None:
    for name in names:
        lines = [
            [row["settings"]["method"], row["settings"]["setting"], f"{v['recall']:.3f}",
             f"{v['qps']:,.0f}", f"{v['qps_single']:,.0f}", f"{v['n_bytes']:.0f}",
             f"{v['build_seconds']:.0f}"]
            for row in rows_of(name) for v in [row["values"]]
        ]  # fmt: skip
        print(f"\n{name}, one thread")
        heads = ["method", "setting", "Recall10@10", "queries/s", "one by one", "bytes/vector",
                 "built in s"]  # fmt: skip
        print(format_table(heads, lines))


def front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats in both recall and speed, by recall."""
    return [p for p in sorted(points) if not any(q[0] >= p[0] and q[1] > p[1] for q in points)]


def draw(names: list[str], folder: Path) -> None:
    """One picture per set and way of asking; points that others beat in both are left out."""
    from sghash.plots import lines
    from sghash.report import save_picture

    folder.mkdir(parents=True, exist_ok=True)
    ways = {"qps": "all queries in one call", "qps_single": "one query at a time"}
    for name in names:
        rows = rows_of(name)
        for field, way in ways.items():
            series = []
            for method in dict.fromkeys(row["settings"]["method"] for row in rows):
                mine = [row for row in rows if row["settings"]["method"] == method]
                label = method.removeprefix("FAISS ").replace("sghash", "SGH")
                size = f"{mine[0]['values']['n_bytes']:.0f} bytes a vector"
                kept = front([(row["values"]["recall"], row["values"][field]) for row in mine])
                # Shortlists by codes and by the decoder are two ways: no line joins them.
                for way_of, words in ((False, label), (True, f"{label} by the decoder")):
                    own = {
                        (row["values"]["recall"], row["values"][field])
                        for row in mine
                        if ("(" in row["settings"]["setting"]) is way_of
                    }
                    if points := [point for point in kept if point in own]:
                        series.append((f"{words}, {size}", *zip(*points, strict=True)))
            figure = lines(
                series, x_label="Recall10@10", y_label="queries per second, one thread",
                y_scale="log", title=f"{name}, {way}", size=(7.4, 5.2),
            )  # fmt: skip
            path = save_picture(figure, folder / f"recall-{field.replace('_', '-')}-{name}.svg")
            print(f"drawn: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--fresh", action="store_true", help="forget what was built and measured")
    parser.add_argument("--again", action="store_true", help="forget what was measured")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--plots", type=Path, default=FOLDER, help="folder of the pictures")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if options.again:
        (FOLDER / "rows.jsonl").unlink(missing_ok=True)
    if not options.report:
        measure_all(options.datasets, options.bits)
    report(options.datasets)
    draw(options.datasets, options.plots)


if __name__ == "__main__":
    main()
