"""Recall that is asked for beside recall that is found, by queries that nobody has seen.

    python benchmarks/partition_targets.py             # five sets, about an hour
    python benchmarks/partition_targets.py --quick     # 25,000 rows of each
    python benchmarks/partition_targets.py --datasets minilm-wordnet
    python benchmarks/partition_targets.py --report    # print what has been measured

Collections with lists, SGH of 128 bits, float16 vectors kept; `target_recall` is the only knob. The
curve behind it comes from rows of the collection, the queries are the set's own. A collection that
went through something stands beside one that was built afresh of the same rows:

- a hundredth, a tenth, a half of the rows allowed (`where`), beside a collection of these rows;
- three tenths of the rows deleted, before and after `compact`;
- a hundred and a thousand neighbours, where lists were measured for ten, beside nothing;
- rows sorted along their first principal axis, added in ten pieces, with a `compact` behind the
  first, the fifth and the last: lists are first learned from a tenth that is unlike all others.

What is measured stays in build/partition-targets: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.verdicts import at_most, line

import sghash
from sghash.evaluation import append_row, format_table, key_of, make_row, read_rows
from sghash.evaluation.metrics import recall

K, N_BITS = 10, 128
FOLDER = Path("build/partition-targets")
DATASETS = ["mnist", "sift-photos", "cifar10-gist", "glove100", "minilm-wordnet"]
TARGETS = (0.90, 0.95, 0.99)
SHARES = (0.01, 0.1, 0.5)
MORE = (100, 1000)
GONE, PIECES, QUICK_ROWS, N_QUERIES = 0.3, 10, 25_000, 2000
#: How far recall may lie below the target, or below that of a collection built afresh.
MOST_BELOW = 0.01


class Task(NamedTuple):
    """A data set, its model, and where to build."""

    name: str
    metric: str
    base: np.ndarray
    queries: np.ndarray
    model: Any
    folder: Path


def load(name: str, quick: bool) -> Task:
    data = sghash.load_dataset(name, fetch=False)
    base = np.asarray(data.base, dtype=np.float32)[: QUICK_ROWS if quick else None]
    queries = np.asarray(data.queries, dtype=np.float32)[:N_QUERIES]
    folder = FOLDER / (name + "-quick" * quick)
    if not (folder / "model").exists():
        model = sghash.SGH(N_BITS, metric=data.metric, random_state=0).fit(base)
        model.save(folder / "model")
    model = sghash.load_model(folder / "model")
    return Task(name, data.metric, base, queries, model, folder)


def create(task: Task, name: str) -> sghash.Collection:
    path = task.folder / name
    shutil.rmtree(path, ignore_errors=True)
    return sghash.Collection.create(
        path, task.model, metric=task.metric, keep_vectors="float16", partitions="auto"
    )


def fresh(task: Task, rows: np.ndarray, name: str = "fresh") -> sghash.Collection:
    """A collection of these rows of the set, under their numbers, in lists learned from them."""
    collection = create(task, name)
    collection.add(task.base[rows], ids=rows)
    collection.compact()
    return collection


def sorted_rows(task: Task) -> sghash.Collection:
    centred = task.base[:: max(1, len(task.base) // 20_000)]
    axis = np.linalg.svd(centred - centred.mean(axis=0), full_matrices=False)[2][0]
    collection = create(task, "sorted")
    for number, piece in enumerate(np.array_split(np.argsort(task.base @ axis), PIECES)):
        collection.add(task.base[piece], ids=piece)
        if number in (0, PIECES // 2 - 1, PIECES - 1):
            collection.compact()
    return collection


def found_recalls(
    task: Task, collection: sghash.Collection, rows: np.ndarray, where: Any = None, k: int = K
) -> dict[str, float]:
    """Recall by target, of the k true neighbours among these rows."""
    path = task.folder / f"truth-{len(rows)}-{int(rows[: len(rows) // 2].sum())}-{k}.npy"
    if not path.exists():
        truth = sghash.ground_truth(task.base[rows], task.queries, k, metric=task.metric)
        np.save(path, rows[truth.ids])
    truth = np.load(path)
    values = {}
    for target in TARGETS:
        found = collection.search(task.queries, k, target_recall=target, where=where, threads=1)
        values[f"{target}"] = recall(truth, found.ids, k=k, n=k)
    return values


def situations(task: Task) -> dict[str, Callable[[], dict[str, dict[str, float]]]]:
    """What is measured, by name: recalls of the collection, and of one built afresh."""
    rng = np.random.default_rng(0)
    everyone = np.arange(len(task.base))
    left = np.sort(rng.permutation(len(everyone))[round(GONE * len(everyone)) :])
    shares = {share: np.flatnonzero(rng.random(len(everyone)) < share) for share in SHARES}

    def allowed(rows: np.ndarray) -> dict[str, dict[str, float]]:
        with fresh(task, everyone) as collection:
            ours = found_recalls(task, collection, rows, where=rows)
        with fresh(task, rows) as collection:
            return {"ours": ours, "fresh": found_recalls(task, collection, rows)}

    def deleted(compact: bool) -> dict[str, dict[str, float]]:
        with fresh(task, everyone) as collection:
            collection.delete(np.setdiff1d(everyone, left))
            if compact:
                collection.compact()
            ours = found_recalls(task, collection, left)
        with fresh(task, left) as collection:
            return {"ours": ours, "fresh": found_recalls(task, collection, left)}

    def in_order() -> dict[str, dict[str, float]]:
        with sorted_rows(task) as collection:
            ours = found_recalls(task, collection, everyone)
        with fresh(task, everyone) as collection:
            return {"ours": ours, "fresh": found_recalls(task, collection, everyone)}

    def alone(k: int = K) -> dict[str, dict[str, float]]:
        with fresh(task, everyone) as collection:
            return {"ours": found_recalls(task, collection, everyone, k=k)}

    return {
        "all rows": alone,
        **{f"k = {k}": lambda k=k: alone(k) for k in MORE},
        **{f"{share:.0%} allowed": lambda s=share: allowed(shares[s]) for share in SHARES},
        "30% deleted": lambda: deleted(False),
        "30% deleted, compacted": lambda: deleted(True),
        "sorted, ten pieces": in_order,
    }


def run(name: str, quick: bool) -> None:
    known = {row["settings"]["situation"] for row in rows_of(name, quick)}
    task = None
    for situation in SITUATIONS:
        if situation in known:
            continue
        task = task or load(name, quick)
        print(f"{task.folder.name}: {situation}", flush=True)
        values = situations(task)[situation]()
        flat = {f"{who} {target}": v for who, some in values.items() for target, v in some.items()}
        settings = {"set": task.folder.name, "situation": situation}
        append_row(FOLDER / "rows.jsonl", make_row(key_of(settings), settings, flat))
    if task is not None:
        for path in ("fresh", "sorted"):
            shutil.rmtree(task.folder / path, ignore_errors=True)


SITUATIONS = [
    "all rows", *(f"k = {k}" for k in MORE), *(f"{share:.0%} allowed" for share in SHARES),
    "30% deleted", "30% deleted, compacted", "sorted, ten pieces",
]  # fmt: skip


def rows_of(name: str, quick: bool) -> list[dict[str, Any]]:
    rows = read_rows(FOLDER / "rows.jsonl") if (FOLDER / "rows.jsonl").exists() else []
    return [row for row in rows if row["settings"]["set"] == name + "-quick" * quick]


def report(name: str, quick: bool) -> None:
    rows = rows_of(name, quick)
    if not rows:
        print(f"\n{name}{' (quick)' * quick}: nothing was measured")
        return
    lines: list[list[str]] = []
    below: list[float] = []
    behind: list[float] = []
    short: list[float] = []
    for row in rows:
        values = row["values"]
        cells = []
        for target in TARGETS:
            ours = values[f"ours {target}"]
            below.append(target - ours)
            afresh = values.get(f"fresh {target}")
            cells += [f"{ours:.3f}", "" if afresh is None else f"{afresh:.3f}"]
            if afresh is not None:
                behind.append(afresh - ours)
                short.append(min(afresh, target) - ours)
        lines.append([row["settings"]["situation"], *cells])
    heads = [f"{target:g}{what}" for target in TARGETS for what in ("", " afresh")]
    print(f"\n{name}{' (quick)' * quick}, RecallK@K by target_recall, K = {K} where none is named")
    print(format_table(["rows", *heads], lines))
    print(line("most below a target", max(below), at_most(MOST_BELOW)))
    if behind:
        said = "the same, what it finds beyond the target left out"
        print(line("most below one built afresh", max(behind), at_most(MOST_BELOW)))
        print(line(said, max(short), at_most(MOST_BELOW)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--quick", action="store_true", help="25,000 rows of each set")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in options.datasets:
        if not options.report:
            run(name, options.quick)
        report(name, options.quick)


if __name__ == "__main__":
    main()
