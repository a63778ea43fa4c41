"""The demonstration: what the package does, on data that is always there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sghash.evaluation.metrics import recall
from sghash.index import HammingIndex
from sghash.kernels import exact_neighbors
from sghash.models import MODELS, model_class

# The best model there is comes first; those that do not exist in an installation are left out.
DEMO_MODELS = ("SGH", "ITQ", "LSH")


def run_digits(*, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Fit models on handwritten digits, search them by Hamming distance, measure recall."""
    from sklearn.datasets import load_digits

    digits = load_digits().data.astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(digits))
    queries, base = digits[order[:200]], digits[order[200:]]
    truth = exact_neighbors(base, queries, 10, metric="l2").ids
    rows = []
    for name in DEMO_MODELS:
        if name not in MODELS:
            continue
        for n_bits in (16, 64):
            say(f"fitting {name} with {n_bits} bits ...")
            started = time.perf_counter()
            model = model_class(name)(n_bits=n_bits, random_state=seed).fit(base)
            seconds = time.perf_counter() - started
            index = HammingIndex(n_bits=n_bits)
            index.add(model.encode(base))
            found = index.search(model.encode(queries), k=50).ids
            rows.append(
                {
                    "model": name,
                    "n_bits": n_bits,
                    "bytes": index.nbytes // len(index),
                    "recall10_at_10": recall(truth, found, k=10, n=10),
                    "recall10_at_50": recall(truth, found, k=10, n=50),
                    "fit_seconds": seconds,
                }
            )
    return {
        "n": len(base),
        "dimensions": base.shape[1],
        "queries": len(queries),
        "seed": seed,
        "rows": rows,
    }
