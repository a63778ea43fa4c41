"""The obvious thing: `Collection.build(path, X)`, then `search(Q)`, on every set of real data.

    SGHASH_DATA=... python benchmarks/default_path.py [--sets MNIST SIFT GIST GloVe MiniLM CIFAR]
    ... default_path.py --targets 0.9 0.95 0.99     # builds for each of these targets
    ... default_path.py --bytes 32                  # and for so many bytes, beside every method
    ... default_path.py --growth                    # a tenth is built, the rest is added later
    ... default_path.py --unlike                    # queries unlike the rows, and queries=
    ... default_path.py --shell                     # two commands from a .npy, beside autofaiss
    ... default_path.py --quick                     # built-in data, seconds: does it run?

Queries are those of the set, which the build never sees; recall is Recall10@10 against exact
distances of the vectors as they came. Times of a query are of one at a time on one thread, the
median; where turbovec is installed, it is measured beside, on the same rows and queries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash import Collection
from sghash.experiments.sets import CIFAR, GIST, MNIST, QUICK_DIGITS, SIFT, TEXTS, WORDS, load
from sghash.kernels.vectors.exact import exact_neighbors
from sghash.validation import available_cores

SETS = {"MNIST": MNIST, "SIFT": SIFT, "GIST": GIST, "GloVe": WORDS, "MiniLM": TEXTS, "CIFAR": CIFAR}
K, TIMED = 10, 300


class Measured(NamedTuple):
    """One way to search: what it found, and what it took."""

    name: str
    target: float | None
    recall: float
    microseconds: float
    bytes_per_row: float
    build_seconds: float
    build_cpu: float


def rows_of(name: str, *, quick: bool) -> tuple[Any, Any]:
    """Base and queries of a set, float32."""
    loaded = load(QUICK_DIGITS if quick else SETS[name])
    return np.asarray(loaded.base, np.float32), np.asarray(loaded.queries, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--targets", type=float, nargs="+", default=[0.95])
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--unlike", action="store_true")
    parser.add_argument("--shell", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    names = ["digits"] if options.quick else options.sets
    if options.unlike:
        unlike(quick=options.quick)
        return
    if options.shell:
        from_the_shell(*rows_of("MiniLM", quick=options.quick))
        return
    for name in names:
        base, queries = rows_of(name, quick=options.quick)
        print(f"\n{name}: {len(base)} x {base.shape[1]}, {len(queries)} queries")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for target in options.targets:
                show(built(place / f"{target}", base, queries, target_recall=target))
            if options.bytes is not None:
                show_bytes(place, base, queries, options.bytes)
            if options.growth:
                grown(place / "grown", base, queries)
        if name == "MiniLM":
            show_turbovec(base, queries)


def truth_of(base: Any, queries: Any, metric: str) -> Any:
    """Exact neighbours."""
    return exact_neighbors(base, queries, K, metric=metric, threads=available_cores()).ids


def recall_of(found: Any, truth: Any) -> float:
    """Recall10@10."""
    return float((found[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def microseconds_of(search: Callable[[Any], Any], queries: Any) -> float:
    """The median of one query at a time."""
    times = []
    for place in range(min(TIMED, len(queries))):
        started = time.perf_counter()
        search(queries[place : place + 1])
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1e6


def built(path: Path, base: Any, queries: Any, **options: Any) -> list[Measured]:
    """Build, and search without options, then for other recalls."""
    wall, cpu = time.perf_counter(), time.process_time()
    with Collection.build(path, base, **options) as collection:
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        plan = collection.plan
        assert plan is not None
        print(plan)
        truth = truth_of(base, queries, collection.metric)
        per_row = collection.stats()["bytes_per_row"]
        found = []
        for target in (None, 0.9, 0.95, 0.99):

            def search(some: Any, target: float | None = target) -> Any:
                return collection.search(some, K, target_recall=target, threads=1).ids

            recall = recall_of(search(queries), truth)
            spent = microseconds_of(search, queries)
            found.append(Measured(plan.pipeline, target, recall, spent, per_row, wall, cpu))
    return found


def show(found: Sequence[Measured]) -> None:
    """A line each."""
    first = found[0]
    print(
        f"built in {first.build_seconds:.1f} s ({first.build_cpu:.1f} s of CPU), "
        f"{first.bytes_per_row:.1f} bytes a row"
    )
    for one in found:
        asked = "no options" if one.target is None else f"target_recall={one.target:g}"
        print(f"  {asked:20s} recall {one.recall:.4f}  one query {one.microseconds:7.1f} us")


def show_bytes(place: Path, base: Any, queries: Any, n_bytes: int) -> None:
    """The best recall within some bytes, beside that of every method at that length."""
    from sghash.data.dataset import DataSet
    from sghash.data.sources import ArraySource
    from sghash.evaluation import evaluate

    found = built(place / "bytes", base, queries, bytes_per_vector=n_bytes)
    show(found[:1])
    data = DataSet("rows", ArraySource(base), ArraySource(queries), "l2")
    models = ("SGH", "ITQ", "GenerativeQuantizer", "ProductQuantizer")
    result = evaluate(data, models=models, n_bits=(8 * n_bytes,), wanted_recall=2.0)
    for one in result.pipelines:
        if one.n_bytes <= n_bytes:
            print(f"  {one.name:50s} recall {one.recall:.4f} ({one.n_bytes:.0f} bytes)")


def grown(path: Path, base: Any, queries: Any) -> None:
    """Build with a tenth of the rows, add the others, compact; does the promise hold?"""
    some = len(base) // 10
    with Collection.build(path, base[:some]) as collection:
        truth = truth_of(base, queries, collection.metric)
        collection.add(base[some:])
        for what in ("added", "compacted"):
            found = collection.search(queries, K, threads=1).ids
            old = collection.stats()["plan_is_old"]
            print(f"  ten times the rows, {what}: recall {recall_of(found, truth):.4f}, old: {old}")
            collection.compact()


def unlike(*, quick: bool) -> None:
    """Digits of another hand: every image is shifted and thinned, the rows are as they were."""
    base, queries = rows_of("MNIST", quick=quick)
    side = round(base.shape[1] ** 0.5)
    moved = np.roll(queries.reshape(-1, side, side), (side // 9, side // 7), axis=(1, 2))
    moved = np.minimum(moved, np.roll(moved, 1, axis=2)).reshape(queries.shape)
    sample, asked = moved[: len(moved) // 2], moved[len(moved) // 2 :]
    with tempfile.TemporaryDirectory() as folder:
        for name, given in (("rows", None), ("queries", sample)):
            with Collection.build(Path(folder) / name, base, queries=given) as collection:
                truth = truth_of(base, asked, collection.metric)
                found = collection.search(asked, K, threads=1).ids
                plan = collection.plan
                assert plan is not None
                spent = microseconds_of(lambda q: collection.search(q, K, threads=1), asked)
                print(
                    f"planned by {name:8s} expected {plan.expected:.4f}, recall of queries unlike "
                    f"the rows {recall_of(found, truth):.4f}, one query {spent:.1f} us"
                )


def from_the_shell(base: Any, queries: Any) -> None:
    """Two commands, each a process: seconds of the clock, and recall."""
    truth = truth_of(base, queries, "ip")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "base.npy", base)
        np.save(place / "queries.npy", queries)
        started = time.perf_counter()
        subprocess.run(["sghash", "create", "c", "base.npy"], cwd=place, check=True)
        created = time.perf_counter() - started
        started = time.perf_counter()
        command = ["sghash", "search", "c", "queries.npy", "--json"]
        out = subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout
        searched = time.perf_counter() - started
        found = np.asarray([[n["id"] for n in a["neighbors"]] for a in json.loads(out)])
        print(f"sghash create {created:.1f} s, search {searched:.1f} s, "
              f"recall {recall_of(found, truth):.4f}")  # fmt: skip
        try:
            from autofaiss import build_index
        except ImportError:
            print("autofaiss is not installed: not measured")
            return
        started = time.perf_counter()
        try:
            index, facts = build_index(
                np.ascontiguousarray(base), save_on_disk=False, metric_type="ip",
                max_index_memory_usage=f"{base.nbytes // 5}B", verbose=40,
            )  # fmt: skip
        except TypeError as error:
            print(f"autofaiss does not work with this FAISS: {error}")
            return
        spent = time.perf_counter() - started
        found = index.search(np.ascontiguousarray(queries), K)[1]
        print(f"autofaiss build_index {spent:.1f} s, recall {recall_of(found, truth):.4f}: {facts}")


def show_turbovec(base: Any, queries: Any) -> None:
    """A peer that scans everything, where it is installed."""
    try:
        import turbovec
    except ImportError:
        print("turbovec is not installed: not measured")
        return
    truth = truth_of(base, queries, "ip")
    sample = base[np.random.default_rng(0).choice(len(base), 1024, replace=False)]
    for bits in (2, 4):
        started = time.perf_counter()
        index = turbovec.TurboQuantIndex(base.shape[1], bits)
        index.calibrate(np.ascontiguousarray(sample))
        index.add(np.ascontiguousarray(base))
        index.prepare()
        seconds = time.perf_counter() - started

        def search(some: Any, index: Any = index) -> Any:
            return np.asarray(index.search(np.ascontiguousarray(some), K)[1], np.int64)

        recall = recall_of(search(queries), truth)
        spent = microseconds_of(search, queries)
        per_row = len(index.to_bytes()) / len(base)
        print(
            f"  turbovec, {bits} bits: recall {recall:.4f}  one query {spent:7.1f} us  "
            f"{per_row:.1f} bytes a row, built in {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()
