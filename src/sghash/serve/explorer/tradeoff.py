"""Recall against bytes: what other lengths of code would find, measured on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sghash.errors import InvalidInput
from sghash.evaluation.metrics import recall
from sghash.evaluation.specs import Run, build_model
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.serve.explorer.sample import Sample
from sghash.validation import Ids, Vectors, available_cores

LENGTHS = (16, 32, 64, 128, 256, 512)
SHORTLISTS = (10, 20, 50, 100, 200, 500)
K = 10
#: Rows that are searched, and rows that are left out of them to ask with.
MOST_ROWS, MOST_QUERIES = 4000, 200
#: Bytes of one number, and more for each row, of a vector that is kept so.
KEPT_BYTES = {
    "none": (0.0, 0), "int4": (0.5, 12), "int8": (1.0, 12), "float16": (2.0, 0), "float32": (4.0, 0)
}  # fmt: skip
# Models that learn fast enough to be learned anew here, and with what options.
_QUICK: dict[str, dict[str, Any]] = {
    "SGH": {"n_steps": 150}, "ITQ": {}, "LSH": {}, "PCAHashing": {}, "SignHashing": {},
    "SpectralHashing": {},
}  # fmt: skip


def tradeoff(sample: Sample, *, lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """Recall10@N by code length and N; queries are rows that no model learned here has seen.

    Codes of other lengths are learned on a few thousand rows by the model's own kind; without
    `lengths` only the collection's own model is measured.
    """
    if sample.vectors is None:
        return {"missing": "Recall is measured against vectors, and none are kept here."}
    if len(sample) < 10 * K:
        return {"missing": f"Recall is measured from {10 * K} rows on; there are {len(sample)}."}
    base, queries = _divided(sample.vectors)
    truth = exact_neighbors(base, queries, K, metric=sample.metric, threads=available_cores()).ids
    own_points = [_measured(sample.model, sample.metric, base, queries, truth)]
    points = []
    name = type(sample.model).__name__
    if name in _QUICK and sample.is_bits:
        for n_bits in sorted({*lengths, sample.n_bits} if lengths else ()):
            try:
                model = build_model(Run(name, n_bits, 0, dict(_QUICK[name])), sample.metric)
                model.fit(base)
            except InvalidInput:
                continue  # a length that this kind of code cannot have on such vectors
            points.append(_measured(model, sample.metric, base, queries, truth))
    return {
        "k": K,
        "model": name,
        "width": int(base.shape[1]),
        "n_rows": len(base),
        "n_queries": len(queries),
        "shortlists": [n for n in SHORTLISTS if n <= len(base)],
        "points": points or own_points,
        "own": own_points[0],
        "kept_bytes": {name: list(cost) for name, cost in KEPT_BYTES.items()},
    }


def _divided(vectors: Vectors) -> tuple[Vectors, Vectors]:
    order = np.random.default_rng(0).permutation(len(vectors))
    n_queries = min(MOST_QUERIES, len(vectors) // 5)
    chosen = order[n_queries : n_queries + MOST_ROWS]
    return vectors[np.sort(chosen)], vectors[np.sort(order[:n_queries])]


def _measured(
    model: Any, metric: str, base: Vectors, queries: Vectors, truth: Ids
) -> dict[str, Any]:
    """What one model finds: by Hamming distance, and by its decoder where it has one."""
    depths = [n for n in SHORTLISTS if n <= len(base)]
    threads, codes = available_cores(), model.encode(base)
    found: dict[str, Any] = {"n_bits": model.code_bits, "hamming": None, "decoder": None}
    if model.capabilities.codes == "bits":
        near = hamming_neighbors(
            codes, model.encode(queries), depths[-1], n_bits=model.code_bits, threads=threads
        )
        found["hamming"] = [round(recall(truth, near.ids, k=K, n=n), 4) for n in depths]
    if model.capabilities.decodes:
        decoded = np.asarray(model.decode(codes), dtype=np.float32)
        near = exact_neighbors(decoded, queries, depths[-1], metric=metric, threads=threads)
        found["decoder"] = [round(recall(truth, near.ids, k=K, n=n), 4) for n in depths]
    return found
