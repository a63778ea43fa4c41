"""SGH as methods of BitBudget, a benchmark of retrieval quality per byte (PyPI `bitbudget`).

    pip install bitbudget
    python integrations/bitbudget_sghash.py methods
    python integrations/bitbudget_sghash.py run --embedder minilm --corpus scifact
    python integrations/bitbudget_sghash.py vectors embeddings.npz      # arrays demb and qemb

All but the last are BitBudget's own commands, with our methods beside its own. `vectors` needs no
corpus: documents and queries come from a file, and the ten documents that the full vectors rank
highest are taken as relevant, so that nDCG says what is lost to compression. Bytes are all that is
stored per document: the code, nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import bitbudget
import numpy as np
from bitbudget import cli

import sghash

SIZES = (8, 16, 32, 48, 64)
Scores = tuple[np.ndarray, float]


def by_hamming(n_bytes: int) -> Callable[[np.ndarray, np.ndarray], Scores]:
    """Documents and queries both as codes."""

    def score(documents: np.ndarray, queries: np.ndarray) -> Scores:
        model = sghash.SGH(n_bits=8 * n_bytes, metric="cosine", random_state=0).fit(documents)
        signs = model.transform(documents).astype(np.float32) * 2 - 1
        asked = model.transform(queries).astype(np.float32) * 2 - 1
        return asked @ signs.T, float(n_bytes)

    return score


def by_decoder(n_bytes: int) -> Callable[[np.ndarray, np.ndarray], Scores]:
    """Documents as sharpened codes, queries as they are: q.x(h), what `query_tables` sums up."""

    def score(documents: np.ndarray, queries: np.ndarray) -> Scores:
        model = sghash.SGH(
            n_bits=8 * n_bytes, metric="cosine", goal="reconstruction", random_state=0
        ).fit(documents)
        return queries @ model.decode(model.encode(documents, sweeps=3)).T, float(n_bytes)

    return score


def register() -> list[str]:
    """Add our methods to BitBudget's; returns their names."""
    names = []
    for n_bytes in SIZES:
        for kind, make in (("hamming", by_hamming), ("asymmetric", by_decoder)):
            name = f"sgh-{kind}-{n_bytes}"
            bitbudget.method(name, bits=1)(make(n_bytes))
            names.append(name)
    return names


def judge(documents: np.ndarray, queries: np.ndarray, methods: list[str] | None = None) -> list:
    """BitBudget's rows for vectors without judgements: the exact ten nearest are relevant."""
    nearest = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :10]
    relevant = {str(q): {str(d): 1 for d in row} for q, row in enumerate(nearest)}
    return bitbudget.evaluate(
        documents, queries, np.arange(len(documents)), np.arange(len(queries)), relevant, methods
    )


def main(arguments: list[str]) -> None:
    register()
    if arguments[:1] != ["vectors"]:
        cli.main(arguments)
        return
    if len(arguments) != 2:
        sys.exit("give one file: vectors embeddings.npz")
    with np.load(Path(arguments[1])) as archive:
        parts = [archive[name].astype(np.float32) for name in ("demb", "qemb")]
    documents, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in parts)
    for row in judge(documents, queries):
        print(
            f"{row['method']:20}{row['bytes']:7.0f} bytes   nDCG@10 {row['ndcg']:.3f}   "
            f"recall@10 {row['recall']:.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
