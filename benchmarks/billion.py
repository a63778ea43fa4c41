"""A billion codes on one machine: encoded, stored in shards, searched by scans and by lists.

    python benchmarks/billion.py                     # 1,000,000,000 rows; goes on where it stopped
    python benchmarks/billion.py --rows 10000000     # a hundredth of it, to see that it works
    python benchmarks/billion.py --remove            # remove what it has written

A stream of perturbed SIFT descriptors (`measuring/perturbed.py`), never stored, is encoded to 64
bits by SGH and stored in collections, one after the other; lists of codes are made of each. Beside
the encoding, the exact nearest rows of all queries are found. Then, in a process of its own each:
the exact scan of a batch on one thread, beside the same scan of a million codes in memory; single
queries through lists, with the share of their answers that score no worse than the k-th of all.
At last SGH beside ITQ at 16, 32 and 64 bits, on the first rows of the stream, as many as one piece
has. Memory is what the process has resident, mapped pages of files counted. Everything stays in
build/billion. Needs about 30 bytes of disk per row, and SIFT photos in `SGHASH_DATA`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # rows are divided among threads here

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from measuring.perturbed import DEVIATIONS, NORMAL, K, Truth, perturb
from measuring.verdicts import at_least, at_most, line

import sghash
from sghash import Collection
from sghash.collection import ShardedCollection
from sghash.files import write_atomically
from sghash.index import HammingIndex
from sghash.kernels import hamming_neighbors
from sghash.neighbors import Neighbors, merge_neighbors

FOLDER = Path("build/billion")
N_BITS, LENGTHS, DEPTH = 64, (16, 32, 64), 1000
BLOCK_ROWS, PIECES = 32_768, 10
N_QUERIES, N_BATCH, N_SINGLE = 1000, 200, 200
RECALL = 0.9


class Plan:
    """How many rows, in how many shards, each written in `PIECES` pieces."""

    def __init__(self, n_rows: int, n_shards: int, n_lists: int | None = None) -> None:
        self.n_rows, self.n_shards = n_rows, n_shards
        self.folder = FOLDER / f"{n_rows}-{n_shards}"
        self.shard_rows = -(-n_rows // n_shards)
        self.piece_rows = -(-self.shard_rows // PIECES)
        self.n_lists = n_lists or max(64, int(self.shard_rows**0.5) // 2)

    def shard(self, number: int) -> Path:
        return self.folder / f"shard-{number}"

    def pieces(self, number: int) -> list[tuple[int, int]]:
        """Rows of each piece of a shard."""
        first, last = number * self.shard_rows, min((number + 1) * self.shard_rows, self.n_rows)
        return [(s, min(s + self.piece_rows, last)) for s in range(first, last, self.piece_rows)]

    def note(self, stage: str, values: dict[str, Any]) -> None:
        with open(self.folder / "figures.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": stage, **values}) + "\n")

    def noted(self, stage: str) -> list[dict[str, Any]]:
        path = self.folder / "figures.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [row for row in map(json.loads, lines) if row["stage"] == stage]


@lru_cache(maxsize=1)
def data() -> tuple[np.ndarray, np.ndarray]:
    found = sghash.load_dataset("sift-photos", fetch=False)
    return np.asarray(found.base), np.asarray(found.queries)[:N_QUERIES].astype(np.float32)


def model_of(kind: str, n_bits: int) -> Any:
    """A model of the base, fitted once."""
    folder = FOLDER / f"model-{kind}-{n_bits}"
    if not folder.exists():
        base, _ = data()
        model = getattr(sghash, kind)(n_bits, random_state=0).fit(base.astype(np.float32))
        model.save(folder)
    return sghash.load_model(folder)


def in_blocks(
    first: int, last: int, threads: int, work: Callable[[int, np.ndarray, int], None]
) -> None:
    """Let threads make rows `first` to `last` - 1 and call `work(first row, rows, thread)`."""
    base, _ = data()
    starts = list(range(first, last, BLOCK_ROWS))

    def share(thread: int) -> None:
        rows = np.empty((BLOCK_ROWS, base.shape[1]), dtype=np.float32)
        for start in starts[thread::threads]:
            part = rows[: min(BLOCK_ROWS, last - start)]
            perturb(base, NORMAL, DEVIATIONS, 0, start, part)
            work(start, part, thread)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(share, range(threads)))


def encode(plan: Plan, threads: int) -> None:
    """Encode and store piece by piece; the truth of a piece is written before its codes are."""
    model, (base, queries) = model_of("SGH", N_BITS), data()
    truths = [Truth(base, queries) for _ in range(threads)]
    for number in range(plan.n_shards):
        path, pieces = plan.shard(number), plan.pieces(number)
        if (path / "manifest.json").exists():
            shard = Collection.open(path, writable=True)
        else:
            shutil.rmtree(path, ignore_errors=True)  # an earlier run was killed as it made it
            shard = Collection.create(path, model, partitions=plan.n_lists)
        with shard:
            for first, last in pieces[-(-len(shard) // plan.piece_rows) :]:
                began, cpu = time.perf_counter(), time.process_time()
                for truth in truths:
                    load_truth(plan, first, truth)
                codes = np.empty((last - first, N_BITS // 8), dtype=np.uint8)

                def work(start: int, rows: np.ndarray, thread: int, first=first, codes=codes):
                    codes[start - first : start - first + len(rows)] = model.encode(rows)
                    truths[thread].add(rows, start)

                in_blocks(first, last, threads, work)
                for truth in truths[1:]:
                    truths[0].take(truth)
                save_truth(plan, last, truths[0])
                shard.add_codes(codes, np.arange(first, last), fingerprint=model.fingerprint_)
                took = time.perf_counter() - began
                plan.note("encoding", {"rows": last - first, "seconds": took,
                                       "cpu": time.process_time() - cpu})  # fmt: skip
                each = took / (last - first) * 1e6
                print(f"{last:,} of {plan.n_rows:,} rows: {each:.2f} us a row", flush=True)
            stored = shard.moment.state.stored
            if sum(len(s.rows) for s in stored if s.rows.lists is not None) < len(shard):
                began, cpu = time.perf_counter(), time.process_time()
                shard.compact()
                took = time.perf_counter() - began
                plan.note("lists", {"rows": len(shard), "seconds": took,
                                    "cpu": time.process_time() - cpu})  # fmt: skip
                each = took / len(shard) * 1e6
                print(f"{plan.n_lists} lists of shard {number}: {each:.2f} us a row", flush=True)


def load_truth(plan: Plan, n_rows: int, truth: Truth) -> None:
    if n_rows:
        with np.load(plan.folder / f"truth-{n_rows}.npz") as file:
            truth.distances[:], truth.ids[:] = file["distances"], file["ids"]


def save_truth(plan: Plan, n_rows: int, truth: Truth) -> None:
    write_atomically(
        plan.folder / f"truth-{n_rows}.npz",
        lambda stream: np.savez(stream, distances=truth.distances, ids=truth.ids),
    )


def memory() -> dict[str, float]:
    """Gigabytes: the most that was resident, and what belongs to the process alone now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {
        text.split(":")[0]: text.split()[1]
        for text in lines
        if text.startswith(("VmHWM", "RssAnon"))
    }
    return {"resident": int(found["VmHWM"]) / 1e6, "own": int(found["RssAnon"]) / 1e6}


def opened(plan: Plan) -> ShardedCollection:
    return ShardedCollection.open([plan.shard(number) for number in range(plan.n_shards)])


def scan(plan: Plan) -> None:
    """The exact scan of a batch; every answer is kept for those that come after."""
    _, queries = data()
    shards, batch = opened(plan), queries[:N_BATCH]
    rng = np.random.default_rng(0)
    small = HammingIndex(N_BITS)
    small.add(rng.integers(0, 256, (10**6, N_BITS // 8), dtype=np.uint8))
    codes = shards.model.encode(batch)
    rates, per_second = {"in memory": [], "stored": []}, []
    shards.search(queries[:8], K, rerank="none", threads=1)  # compiles, and reads every page once
    for _ in range(3):
        for name, n, call in (
            ("in memory", 10**6, lambda: small.search(codes, K, threads=1)),
            ("stored", plan.n_rows, lambda: shards.search(batch, K, rerank="none", threads=1)),
        ):
            began, at = time.process_time(), time.perf_counter()
            call()
            spent, took = time.process_time() - began, time.perf_counter() - at
            rates[name].append(n * len(batch) / spent)
            if name == "stored":
                per_second.append(len(batch) / took)
    began = time.process_time()
    found = shards.search(queries, DEPTH, rerank="none", threads=1)
    deep = time.process_time() - began
    truth = Truth(data()[0], queries)
    load_truth(plan, plan.n_rows, truth)
    np.savez(plan.folder / "scan.npz", distances=found.distances, ids=found.ids)
    depths = (10, 100, 1000)
    plan.note("scan", {
        **{name: max(values) for name, values in rates.items()}, "deep seconds": deep,
        "queries per second by the clock": max(per_second),
        "recall": {str(depth): recall(found.ids[:, :depth], truth.ids) for depth in depths},
        **memory(),
    })  # fmt: skip


def recall(ids: Any, truth: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(ids, truth, strict=True)]))


def scored(plan: Plan) -> None:
    """What lists are held to, which end with the decoder's scores: the best of all codes."""
    _, queries = data()
    exact = opened(plan).search(queries[:N_SINGLE], K, rerank="decoder", shortlist="all", threads=1)
    np.savez(plan.folder / "scored.npz", distances=exact.distances, ids=exact.ids)
    plan.note("scored", memory())


def single(plan: Plan) -> None:
    """One query at a time, through lists; nothing else is read here, for the memory's sake."""
    _, queries = data()
    shards = opened(plan)
    asked = queries[:N_SINGLE]
    with np.load(plan.folder / "scored.npz") as file:
        kth, exact_ids = file["distances"][:, K - 1] * (1 + 1e-6), file["ids"]
    truth = Truth(data()[0], queries)
    load_truth(plan, plan.n_rows, truth)
    began = time.perf_counter()
    shards.search(asked[:1], K, target_recall=RECALL, threads=1)  # checks all lists
    first = time.perf_counter() - began
    for query in asked:  # pages are read, loops compiled
        shards.search(query[None], K, target_recall=RECALL, threads=1)
    clock, cpu, near, ids = [], [], [], []
    for query, bound in zip(asked, kth, strict=True):
        began, at = time.perf_counter(), time.process_time()
        found = shards.search(query[None], K, target_recall=RECALL, threads=1)
        clock.append(time.perf_counter() - began)
        cpu.append(time.process_time() - at)
        near.append(float((found.distances <= bound).mean()))
        ids.append(found.ids[0])
    plan.note("single", {
        "ms": float(np.mean(cpu)) * 1e3, "median ms by the clock": float(np.median(clock)) * 1e3,
        "first seconds": first, "near": float(np.mean(near)),
        "recall": recall(ids, truth.ids[:N_SINGLE]),
        "recall of all": recall(exact_ids, truth.ids[:N_SINGLE]), **memory(),
    })  # fmt: skip


def curves(plan: Plan, threads: int) -> None:
    """SGH beside ITQ on the first piece of the stream."""
    _, queries = data()
    first, last = plan.pieces(0)[0]
    truth = Truth(data()[0], queries)
    load_truth(plan, last, truth)
    models = {
        (kind, n_bits): model_of(kind, n_bits) for kind in ("SGH", "ITQ") for n_bits in LENGTHS
    }
    asked = {name: model.encode(queries) for name, model in models.items()}
    best: list[dict[Any, Neighbors]] = [{} for _ in range(threads)]

    def work(start: int, rows: np.ndarray, thread: int) -> None:
        for name, model in models.items():
            near = hamming_neighbors(
                model.encode(rows), asked[name], DEPTH, n_bits=model.code_bits, threads=1
            )
            near = Neighbors(near.distances, near.ids + start)
            before = best[thread].get(name)
            best[thread][name] = near if before is None else merge_neighbors([before, near], DEPTH)

    in_blocks(first, last, threads, work)
    for name in models:
        parts = [own[name] for own in best if name in own]
        ids = merge_neighbors(parts, DEPTH).ids
        plan.note("curves", {"model": name[0], "n_bits": name[1], "rows": last - first, **{
            f"10@{depth}": recall(ids[:, :depth], truth.ids) for depth in (10, 100, 1000)
        }})  # fmt: skip


STAGES: dict[str, Callable[..., None]] = {"scan": scan, "scored": scored, "single": single}


def report(plan: Plan) -> None:
    files = [path for path in plan.folder.rglob("*") if path.is_file()]
    n_bytes = sum(path.stat().st_size for path in files if path.parent.name.startswith("shard"))
    print(f"\n{plan.n_rows:,} codes of {N_BITS} bits in {plan.n_shards} shards, "
          f"{n_bytes / 1e9:.2f} GB on the disk")  # fmt: skip
    for stage, what in (("encoding", "rows made, encoded, their truth"), ("lists", "lists")):
        rows = plan.noted(stage)
        n = sum(row["rows"] for row in rows) or 1
        wall, cpu = (sum(row[name] for row in rows) for name in ("seconds", "cpu"))
        print(f"{what}: {wall / 3600:.2f} h, {wall / n * 1e6:.2f} us a row by the clock, "
              f"{cpu / n * 1e6:.2f} us of processor time")  # fmt: skip
    for row in plan.noted("scan")[-1:]:
        print(line("10^9 comparisons/s in a batch, one thread", row["stored"] / 1e9, at_least(8.0)))
        print(line("of the rate in memory", row["stored"] / row["in memory"], at_least(0.8)))
        rate = row["queries per second by the clock"]
        print(f"queries of such a batch per second by the clock: {rate:.1f}")
        print(line("gigabytes resident, scan", row["resident"], at_most(14.0)))
        print(
            "recall of the 10 nearest vectors:", {k: round(v, 3) for k, v in row["recall"].items()}
        )
    for row in plan.noted("single")[-1:]:
        print(line("milliseconds of a query through lists, processor", row["ms"], at_most(10.0)))
        clock = row["median ms by the clock"]
        print(line("milliseconds of a query through lists, clock, median", clock, at_most(10.0)))
        print(
            line("answers that score no worse than the k-th of all", row["near"], at_least(RECALL))
        )
        print(
            f"seconds of the first such query, which checks all lists: {row['first seconds']:.1f}"
        )
        told = f"{row['recall']:.3f}, where every code is scored {row['recall of all']:.3f}"
        print(f"recall of the 10 nearest vectors through lists: {told}")
        print(line("gigabytes resident, lists", row["resident"], at_most(14.0)))
    found = {(row["model"], row["n_bits"]): row for row in plan.noted("curves")}
    for (kind, n_bits), row in found.items():
        values = ", ".join(f"{name} {row[name]:.3f}" for name in ("10@10", "10@100", "10@1000"))
        print(f"{kind} {n_bits} bits, first {row['rows']:,} rows: {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--lists", type=int, help="lists of each shard")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--remove", action="store_true", help="remove all that was written")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    plan = Plan(options.rows, options.shards, options.lists)
    if options.remove:
        shutil.rmtree(FOLDER, ignore_errors=True)
        return
    plan.folder.mkdir(parents=True, exist_ok=True)
    if options.stage:
        STAGES[options.stage](plan)
        return
    encode(plan, options.threads)
    for stage in STAGES:
        if not plan.noted(stage):
            sizes = ["--rows", str(options.rows), "--shards", str(options.shards)]
            subprocess.run([sys.executable, __file__, *sizes, "--stage", stage], check=True)
    if len(plan.noted("curves")) < 2 * len(LENGTHS):
        curves(plan, options.threads)
    report(plan)


if __name__ == "__main__":
    main()
