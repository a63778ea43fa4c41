"""Every method side by side: training time, encode time and recall, by code length.

    python benchmarks/rivals.py                     # MNIST and SIFT photos, 16, 32, 64 bits
    python benchmarks/rivals.py --quick             # built-in data, one minute, for a look
    python benchmarks/rivals.py --methods ITQ OPQ --bits 64 --seeds 1
    python benchmarks/rivals.py --asymmetric        # 8 and 16 bytes searched by tables, five sets
    python benchmarks/rivals.py --table-only        # only print what the rows file holds

Every run is appended to the rows file when it is finished: interrupt at any time and call again.
Options are the defaults of the classes, which are the published ones. Models learn from the
vectors that are searched, never from the queries. Hashing methods are searched by Hamming
distance; "SphericalHashing, own distance" ranks the same codes by the paper's spherical Hamming
distance; PQ and OPQ have as many bits but are searched by tables of distances to the query, so
they are a bound rather than a rival. `--asymmetric` compares what is searched so: FAISS's PQ and
OPQ, our own, SGH's codes sharpened by coordinate descent, and `GenerativeQuantizer`; every byte
that is stored for a vector counts (SGH's linear decoder takes |U h|² from the code). Times depend
on the machine: read their ratios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sghash
from sghash.evaluation import (
    Bench,
    Run,
    append_row,
    format_table,
    parse_model,
    read_rows,
    run_once,
    summarize,
    truth_folder,
)
from sghash.evaluation.metrics import recall
from sghash.evaluation.provenance import provenance
from sghash.kernels.tables.bytes import byte_table_neighbors
from sghash.models import model_class

DATASETS = ["mnist", "sift-photos"]
ASYMMETRIC_DATASETS = [*DATASETS, "cifar10-gist", "glove100", "minilm-wordnet"]
BITS = [16, 32, 64]
DEPTH = 100
OWN_DISTANCE = "SphericalHashing, own distance"


def measure_binary(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    model, asked = parse_model(method)
    return run_once(Run(model, n_bits, seed, asked), bench)["values"]


def measure_own_distance(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    start = time.perf_counter()
    model = sghash.models.SphericalHashing(n_bits=n_bits, random_state=seed).fit(bench.base)
    trained = time.perf_counter()
    codes = model.encode(bench.base)
    encoded = time.perf_counter()
    found = []
    for group in np.array_split(model.encode(bench.queries), -(-len(bench.queries) // 32)):
        for distances in sghash.models.spherical_hamming(group, codes, n_bits=n_bits):
            edge = np.partition(distances, DEPTH - 1)[DEPTH - 1]
            near = np.flatnonzero(distances <= edge)
            found.append(near[np.lexsort((near, distances[near]))][:DEPTH])
    return values(bench, np.stack(found), trained - start, encoded - trained)


def measure_quantizer(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    start = time.perf_counter()
    model = sghash.ProductQuantizer(
        n_parts=n_bits // 8, rotate=method == "OPQ", random_state=seed
    ).fit(bench.base)
    trained = time.perf_counter()
    codes = model.encode(bench.base)
    encoded = time.perf_counter()
    tables = model.distance_tables(bench.queries, metric=bench.data.metric)
    found = byte_table_neighbors(codes, tables, DEPTH, threads=bench.threads).ids
    return values(bench, found, trained - start, encoded - trained)


def measure_generative(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    start = time.perf_counter()
    model = sghash.GenerativeQuantizer(
        n_bytes=n_bits // 8, metric=bench.data.metric, random_state=seed
    ).fit(bench.base)
    trained = time.perf_counter()
    codes = model.encode(bench.base)
    encoded = time.perf_counter()
    tables = model.distance_tables(bench.queries)
    found = byte_table_neighbors(codes, tables, DEPTH, threads=bench.threads).ids
    return values(bench, found, trained - start, encoded - trained)


def measure_sharpened(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    """SGH's linear decoder on codes from coordinate descent, scored against every code."""
    start = time.perf_counter()
    model = sghash.SGH(
        n_bits=n_bits, metric=bench.data.metric, goal="reconstruction", random_state=seed
    ).fit(bench.base)
    trained = time.perf_counter()
    codes = model.encode(bench.base, sweeps=3)
    encoded = time.perf_counter()
    terms, found = model.code_terms(codes), []
    for group in np.array_split(bench.queries, -(-len(bench.queries) // 64)):
        tables = model.query_tables(group).tables
        scores = terms + sum(tables[:, part][:, codes[:, part]] for part in range(codes.shape[1]))
        found.append(np.argpartition(scores, DEPTH - 1, axis=1)[:, :DEPTH])
    return values(bench, np.concatenate(found), trained - start, encoded - trained)


def measure_faiss(method: str, n_bits: int, seed: int, bench: Bench) -> dict[str, Any]:
    """FAISS's own PQ or OPQ, vectors padded to a multiple of the number of parts."""
    import faiss

    n_parts, width = n_bits // 8, bench.base.shape[1]
    base, queries = (
        np.pad(np.asarray(rows, dtype=np.float32), ((0, 0), (0, -width % n_parts)))
        for rows in (bench.base, bench.queries)
    )
    if bench.data.metric == "cosine":
        base, queries = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (base, queries))
    inner = bench.data.metric == "ip"
    index = faiss.IndexPQ(
        base.shape[1], n_parts, 8, faiss.METRIC_INNER_PRODUCT if inner else faiss.METRIC_L2
    )
    index.pq.cp.seed = seed + 1
    if method == "FAISS OPQ":
        index = faiss.IndexPreTransform(faiss.OPQMatrix(base.shape[1], n_parts), index)
    start = time.perf_counter()
    rows = np.random.default_rng(seed).permutation(len(base))[: 256 * 256]
    index.train(base[rows])
    trained = time.perf_counter()
    index.add(base)
    encoded = time.perf_counter()
    found = index.search(queries, DEPTH)[1]
    return values(bench, found, trained - start, encoded - trained)


def values(bench: Bench, found: np.ndarray, train: float, encode: float) -> dict[str, Any]:
    name = f"recall{bench.k}@{DEPTH}"
    measured = recall(bench.truth.ids, found, k=bench.k, n=DEPTH)
    return {name: measured, "train_seconds": train, "encode_seconds": encode}


HASHING = [
    name
    for name in sorted(sghash.MODELS)
    if (can := model_class(name)().capabilities).codes == "bits" and can.extra is None
]
Measure = Callable[[str, int, int, Bench], dict[str, Any]]
METHODS: dict[str, Measure] = {
    **dict.fromkeys(HASHING, measure_binary),
    "LSH(center=False)": measure_binary,
    "SignHashing(threshold='mean', rotate=True)": measure_binary,
    OWN_DISTANCE: measure_own_distance,
    "PQ": measure_quantizer,
    "OPQ": measure_quantizer,
}
#: Searched by tables of a real query, none by Hamming distance.
ASYMMETRIC: dict[str, Measure] = {
    "FAISS PQ": measure_faiss,
    "FAISS OPQ": measure_faiss,
    "SGH, sharpened": measure_sharpened,
    "GenerativeQuantizer": measure_generative,
}


def main() -> None:
    options = read_options()
    if options.asymmetric:
        options.methods = list(ASYMMETRIC)
        options.datasets, options.bits = ASYMMETRIC_DATASETS, [64, 128]
    if options.quick:
        options.datasets, options.bits, options.seeds = ["digits"], [16, 32], 2
    if not options.table_only:
        try:
            measure(options)
        except KeyboardInterrupt:
            sys.exit(f"interrupted: what is done stands in {options.rows}; call again to go on")
    rows = [row for row in read_rows(options.rows) if is_wanted(row, options)]
    if not rows:
        sys.exit(f"{options.rows} holds no rows of these data sets, methods and lengths yet")
    print(report(rows, options))


def measure(options: argparse.Namespace) -> None:
    done = {row["key"] for row in read_rows(options.rows)}
    for dataset in options.datasets:
        print(f"{dataset}: reading, and computing the true neighbours once", file=sys.stderr)
        bench = Bench(
            sghash.load_dataset(dataset),
            depths=(DEPTH,),
            threads=options.threads,
            cache=truth_folder(),
        )
        runs = [run for run in all_runs(options) if key_of(run, bench) not in done]
        start = time.perf_counter()
        for number, (method, n_bits, seed) in enumerate(runs):
            spent = time.perf_counter() - start
            left = f", about {spent / number * (len(runs) - number):.0f} s left" if number else ""
            what = f"{method}, {n_bits} bits, seed {seed}"
            print(f"{dataset}: {number} of {len(runs)} runs{left}, next {what}", file=sys.stderr)
            append_row(options.rows, row_of((method, n_bits, seed), bench))


def all_runs(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    for seed in range(options.seeds):
        for n_bits in options.bits:
            yield from ((method, n_bits, seed) for method in options.methods)


def key_of(run: tuple[str, int, int], bench: Bench) -> str:
    text = json.dumps(["rivals", bench.data.checksum, *run, bench.k, DEPTH])
    return hashlib.sha256(text.encode()).hexdigest()


def row_of(run: tuple[str, int, int], bench: Bench) -> dict[str, Any]:
    method, n_bits, seed = run
    measured = (METHODS | ASYMMETRIC)[method](method, n_bits, seed, bench)
    return {
        "key": key_of(run, bench),
        "dataset": bench.data.name,
        "checksum": bench.data.checksum,
        "metric": bench.data.metric,
        "n_vectors": bench.base.shape[0],
        "n_queries": len(bench.queries),
        "model": method,
        "asked": {},
        "n_bits": n_bits,
        "seed": seed,
        "k": bench.k,
        "values": measured,
        **provenance(),
    }


def is_wanted(row: dict[str, Any], options: argparse.Namespace) -> bool:
    return (
        row["dataset"] in options.datasets
        and row["model"] in options.methods
        and row["n_bits"] in options.bits
        and row["seed"] < options.seeds
    )


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """One Markdown table per data set: a line per method, three columns per length."""
    parts = []
    name = f"recall{rows[0]['k']}@{DEPTH}"
    headings = ["method", *(f"{n} bits {what}" for n in options.bits for what in COLUMNS)]
    for dataset in options.datasets:
        here = [row for row in rows if row["dataset"] == dataset]
        if not here:
            continue
        found = {(s.group["model"], s.group["n_bits"]): s.values for s in summarize(here)}
        lines = [
            [method, *(cell for n in options.bits for cell in cells(found.get((method, n)), name))]
            for method in options.methods
            if any((method, n) in found for n in options.bits)
        ]
        first = here[0]
        parts += [
            f"## {dataset}",
            "",
            f"{first['n_vectors']:,} vectors, {first['n_queries']:,} queries, {name}, mean over "
            f"{len({row['seed'] for row in here})} seeds ± half of its 95 % interval.",
            "",
            format_table(headings, lines, markdown=True),
            "",
        ]
    return "\n".join(parts)


COLUMNS = ("recall", "train s", "encode s")


def cells(estimates: Any, name: str) -> list[str]:
    if estimates is None:
        return ["", "", ""]
    recalls = estimates[name]
    text = f"{recalls.mean:.3f}"
    if recalls.half_width is not None:
        text += f" ± {recalls.half_width:.3f}"
    times = [f"{estimates[t].mean:.1f}" for t in ("train_seconds", "encode_seconds")]
    return [text, *times]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS, metavar="NAME")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS),
        choices=[*METHODS, *ASYMMETRIC],
        metavar="METHOD",
    )
    parser.add_argument("--bits", nargs="+", type=int, default=BITS, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, counted from 0")
    parser.add_argument("--rows", type=Path, default=Path("build/rivals.jsonl"))
    parser.add_argument("--threads", type=int, help="for searching (default: all cores)")
    parser.add_argument("--asymmetric", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table-only", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
