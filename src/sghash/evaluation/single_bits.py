"""What each bit of a code is worth: to the code, to reconstruction, and to recall."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.bits import pack_bits, unpack_bits
from sghash.errors import InvalidInput
from sghash.evaluation.metrics import recall
from sghash.evaluation.tables import format_table
from sghash.evaluation.truth import ground_truth
from sghash.index import HammingIndex
from sghash.validation import Codes, check_k, check_vectors

Numbers = NDArray[np.float64]


class BitValues(NamedTuple):
    """One number per bit, (n_bits,), unless said otherwise.

    shares : share of the vectors in which the bit is set; a half is a full bit.
    entropies : bits of information of that share, 0 to 1.
    correlations : (n_bits, n_bits), of the bits over the vectors; a constant bit has none (zero).
    error_without : factor by which the squared error of decoding grows if the bit is not known
        and its usual value stands in its place; NaN for models that cannot decode.
    recall_without : recall that is left if the bit is ignored in search.
    recall : recall with all bits, a single number.
    """

    shares: Numbers
    entropies: Numbers
    correlations: Numbers
    error_without: Numbers
    recall_without: Numbers
    recall: float

    def text(self, *, markdown: bool = False) -> str:
        """Return a table, the most useful bits for recall first."""
        largest = np.abs(self.correlations - np.eye(len(self.shares))).max(axis=1)
        losses = self.recall - self.recall_without
        cells = [
            [
                str(bit),
                f"{self.shares[bit]:.3f}",
                f"{self.entropies[bit]:.3f}",
                f"{largest[bit]:.3f}",
                f"{self.error_without[bit]:.4f}",
                f"{losses[bit]:+.4f}",
            ]
            for bit in np.argsort(-losses, kind="stable")
        ]
        headings = ["bit", "share set", "entropy", "max |corr|", "error without", "recall it adds"]
        return format_table(headings, cells, markdown=markdown)


def bit_values(
    model: Any,
    vectors: ArrayLike,
    queries: ArrayLike,
    *,
    metric: str = "l2",
    k: int = 10,
    n: int = 100,
    threads: int | None = None,
) -> BitValues:
    """Measure the bits of a fitted hashing `model` on `vectors` (m, d) and `queries` (q, d).

    Recall is RecallK@N by Hamming distance. Each bit is left out once, so this takes as many
    searches as there are bits.
    """
    if model.capabilities.codes != "bits":
        raise InvalidInput(
            f"codes of {type(model).__name__} are no bits that could be left out one by one: use a "
            "hashing model, as SGH or ITQ"
        )
    base, asked = check_vectors(vectors), check_vectors(queries, name="queries")
    n = min(check_k(n), len(base))
    truth = ground_truth(base, asked, k, metric=metric, threads=threads).ids
    codes, query_codes = model.encode(base), model.encode(asked)
    bits = unpack_bits(codes, model.n_bits)
    query_bits = unpack_bits(query_codes, model.n_bits)
    shares = bits.mean(axis=0)

    def recall_of(kept: NDArray[np.bool_]) -> float:
        index = HammingIndex(n_bits=model.n_bits)
        index.add(pack_bits(bits & kept))
        found = index.search(pack_bits(query_bits & kept), n, threads=threads).ids
        return recall(truth, found, k=k, n=n)

    others = ~np.eye(model.n_bits, dtype=bool)
    return BitValues(
        shares,
        _entropies(shares),
        _correlations(bits, shares),
        _errors_without(model, base, codes, bits, shares),
        np.asarray([recall_of(kept) for kept in others]),
        recall_of(np.ones(model.n_bits, dtype=bool)),
    )


def _entropies(shares: Numbers) -> Numbers:
    p = np.clip(shares, 1e-300, 1 - 1e-16)
    entropies: Numbers = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return np.where((shares <= 0) | (shares >= 1), 0.0, entropies)


def _correlations(bits: NDArray[np.bool_], shares: Numbers) -> Numbers:
    centred = bits - shares
    spread = centred.std(axis=0)
    centred = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    correlations: Numbers = centred.T @ centred / len(bits)
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _errors_without(
    model: Any, vectors: NDArray[Any], codes: Codes, bits: NDArray[np.bool_], shares: Numbers
) -> Numbers:
    if not model.capabilities.decodes:
        return np.full(model.n_bits, np.nan)
    rows = vectors
    if model.metric == "cosine":
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = vectors / np.where(lengths > 0, lengths, 1)

    def error_of(of_codes: Codes) -> float:
        return float(np.square(rows - model.decode(of_codes), dtype=np.float64).mean())

    whole = error_of(codes)
    errors = np.empty(model.n_bits)
    for bit in range(model.n_bits):
        guessed = bits.copy()
        guessed[:, bit] = shares[bit] > 0.5
        errors[bit] = error_of(pack_bits(guessed))
    return errors / whole if whole > 0 else np.ones(model.n_bits)
