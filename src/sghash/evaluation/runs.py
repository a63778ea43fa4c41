"""A run: fit one model on one data set with one seed, encode, search, measure; then many of them.

Each run becomes a row as soon as it is finished. A row has a key made of everything that determines
its values, so runs whose rows are there already are not done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sghash.bits import unpack_bits
from sghash.evaluation import metrics
from sghash.evaluation.bench import Bench
from sghash.evaluation.pipelines import judge
from sghash.evaluation.rows import append_row, key_of, make_row, read_rows
from sghash.evaluation.searching import nearest_by_tables
from sghash.evaluation.specs import Run, build_model, check_run
from sghash.evaluation.ties import boundary_of, true_code_distances
from sghash.kernels import hamming_neighbors
from sghash.models.base import VectorModel
from sghash.neighbors import Neighbors
from sghash.validation import Codes

# Counts up when the meaning of a value changes: older rows are then measured again.
PROTOCOL = 1


class RunProgress(NamedTuple):
    """What a callback receives before each run and at the end."""

    done: int
    total: int
    following: str
    seconds: float
    seconds_left: float | None


def run_once(run: Run, bench: Bench) -> dict[str, Any]:
    """Fit, encode, search and measure; returns the row of the run."""
    check_run(run, bench.data.metric)
    model = build_model(run, bench.data.metric)
    values: dict[str, float] = {}
    with _clock(values, "train_seconds"):
        model.fit(bench.base)
    # The first call of each kind compiles, and is not what is measured.
    query_codes = model.encode(bench.queries)
    with _clock(values, "encode_seconds"):
        codes = model.encode(bench.base)
    found = _search(bench, model, codes, query_codes, values)
    values |= _retrieval(bench, found)
    if model.capabilities.codes == "bits":
        values |= _expected_recall(bench, found, codes, query_codes)
    values |= _code_values(bench, model, codes, query_codes)
    if bench.wanted is not None:
        for judged in judge(model, codes, bench, bench.kept, bench.wanted):
            values |= judged.values()
    settings = {
        "dataset": bench.data.name,
        "checksum": bench.data.checksum,
        "metric": bench.data.metric,
        "n_vectors": bench.base.shape[0],
        "width": bench.base.shape[1],
        "n_queries": len(bench.queries),
        "model": run.model,
        "n_bits": run.n_bits,
        "seed": run.seed,
        "asked": _plain(run.options),
        "options": _plain(model.get_params(deep=False)),
        "k": bench.k,
        "depths": list(bench.depths),
        "threads": bench.threads,
    }
    return make_row(run_key(run, bench), settings, values)


def run_key(run: Run, bench: Bench) -> str:
    """The key of a run's row."""
    parts = {
        "protocol": PROTOCOL,
        "data": bench.data.checksum,
        "run": [run.model, run.n_bits, run.seed, _plain(run.options)],
        "measured": [bench.k, list(bench.depths)],
    }
    if bench.wanted is not None:
        parts["stages"] = bench.wanted
    return key_of(parts)


def run_all(
    runs: Sequence[Run],
    bench: Bench,
    *,
    rows: Path | None = None,
    callback: Callable[[RunProgress], None] | None = None,
) -> list[dict[str, Any]]:
    """The rows of all `runs`, in their order; those in the file `rows` are not done again.

    New rows are appended to the file one by one, so an interrupted call can be repeated.
    """
    known = {row["key"]: row for row in read_rows(rows)} if rows is not None else {}
    keys = [run_key(run, bench) for run in runs]
    missing = [(run, key) for run, key in zip(runs, keys, strict=True) if key not in known]
    for run, _ in missing:
        check_run(run, bench.data.metric)
    start = time.perf_counter()
    for done, (run, key) in enumerate(missing):
        _tell(
            callback, done, len(missing), start, f"{run.model} {run.n_bits} bits, seed {run.seed}"
        )
        row = run_once(run, bench)
        if rows is not None:
            append_row(rows, row)
        known[key] = row
    _tell(callback, len(missing), len(missing), start, "")
    return [known[key] for key in keys]


def _tell(
    callback: Callable[[RunProgress], None] | None, done: int, total: int, start: float, what: str
) -> None:
    if callback is not None:
        seconds = time.perf_counter() - start
        left = seconds / done * (total - done) if done else None
        callback(RunProgress(done, total, what, seconds, left))


class _clock:
    """Put the wall clock seconds of a block into `values[name]`."""

    def __init__(self, values: dict[str, float], name: str) -> None:
        self.values, self.name = values, name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.values[self.name] = time.perf_counter() - self.start


def _search(
    bench: Bench, model: VectorModel, codes: Codes, query_codes: Codes, values: dict[str, float]
) -> Neighbors:
    depth = bench.depths[-1]
    # Once for nothing on a few rows, with all queries: their number chooses the kernel to compile.
    _nearest(bench, model, codes[:64], query_codes, 1)
    with _clock(values, "search_seconds"):
        found = _nearest(bench, model, codes, query_codes, depth)
    values["queries_per_second"] = metrics.queries_per_second(
        len(query_codes), values["search_seconds"]
    )
    return found


def _nearest(
    bench: Bench, model: VectorModel, codes: Codes, query_codes: Codes, k: int
) -> Neighbors:
    """The k rows of `codes` nearest to each query: by Hamming distance, or by query tables."""
    if model.capabilities.codes == "bits":
        n_bits = model.code_bits
        return hamming_neighbors(codes, query_codes, k, n_bits=n_bits, threads=bench.threads)
    return nearest_by_tables(
        model, codes, bench.queries, k, metric=bench.data.metric, threads=bench.threads
    )


def _retrieval(bench: Bench, found: Neighbors) -> dict[str, float]:
    k, truth = bench.k, bench.truth
    values = {}
    for n in bench.depths:
        values[f"recall{k}@{n}"] = metrics.recall(truth.ids, found.ids, k=k, n=n)
        values[f"precision{k}@{n}"] = metrics.precision(truth.ids, found.ids, k=k, n=n)
    n = bench.depths[-1]
    values[f"average_precision{k}@{n}"] = metrics.average_precision(truth.ids, found.ids, k=k, n=n)
    labels, query_labels = bench.data.base_labels, bench.data.query_labels
    if labels is not None and query_labels is not None:
        values[f"label_average_precision@{n}"] = metrics.label_average_precision(
            labels, query_labels, found.ids, n=n
        )
    return values


def _expected_recall(
    bench: Bench, found: Neighbors, codes: Codes, query_codes: Codes
) -> dict[str, float]:
    """Recall over all orders of ties, which are the rule among Hamming distances alone."""
    true_distances = true_code_distances(bench.truth, codes, query_codes)
    values = {}
    for n in bench.depths:
        edge = boundary_of(found, codes, query_codes, n)
        values[f"expected_recall{bench.k}@{n}"] = metrics.expected_recall(
            bench.truth, true_distances, edge.distance, edge.n_nearer, edge.n_tied, k=bench.k, n=n
        )
    return values


def _code_values(
    bench: Bench, model: VectorModel, codes: Codes, query_codes: Codes
) -> dict[str, float]:
    """What the codes are worth by themselves; decoding is measured on the queries, unseen rows."""
    can, n_bits = model.capabilities, model.code_bits
    values = {"bytes_per_vector": metrics.bytes_per_vector(codes)}
    if can.codes == "bits":
        values["bits_in_use"] = metrics.bits_in_use(unpack_bits(codes, n_bits))
    if can.decodes:
        decoded = model.decode(query_codes)
        for name in ("reconstruction_error", "unexplained_variance"):
            values[name] = metrics.METRICS[name].measure(bench.queries, decoded)
        if can.codes == "bits":
            bits = unpack_bits(query_codes, n_bits)
            values["description_length"] = metrics.description_length(bits, bench.queries, decoded)
    return values


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON can hold them; what it cannot is written as text."""
    return json.loads(json.dumps(dict(options), default=repr))  # type: ignore[no-any-return]
