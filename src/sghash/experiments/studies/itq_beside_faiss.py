"""Our ITQ beside FAISS's and a textbook's on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sghash.bits import pack_bits
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.hashing import recalls
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of
from sghash.kernels import hamming_neighbors
from sghash.models import model_class
from sghash.optional import require
from sghash.validation import Vectors

STORE = "itq_beside_faiss"
N_BITS, QUICK_BITS = 64, 16
N_ROWS, DEPTH = 100_000, 100
#: From rows to learn from, a length and a seed to a function that gives the bits of vectors.
Train = Callable[[Vectors, int, int], Callable[[Vectors], Any]]


def ours(training: Vectors, n_bits: int, seed: int) -> Callable[[Vectors], Any]:
    """`sghash.ITQ`."""
    transform: Callable[[Vectors], Any] = (
        model_class("ITQ")(n_bits=n_bits, random_state=seed).fit(training).transform
    )
    return transform


def textbook(training: Vectors, n_bits: int, seed: int) -> Callable[[Vectors], Any]:
    """Rows of unit length, principal axes, fifty alternations from FAISS's start."""
    faiss = require("faiss", extra="faiss")
    mean = training.mean(axis=0)

    def scaled(vectors: Vectors) -> Vectors:
        centred = vectors - mean
        return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True))

    rows = scaled(training).astype(np.float64)
    axes = np.linalg.eigh(np.cov(rows.T))[1][:, ::-1][:, :n_bits]
    components = rows @ axes
    start = faiss.ITQMatrix(n_bits)
    start.max_iter, start.seed = 0, seed
    start.train(components.astype(np.float32))
    rotation = faiss.vector_to_array(start.A).reshape(n_bits, n_bits).T.astype(np.float64)
    for _ in range(50):
        left, _, right = np.linalg.svd(components.T @ np.sign(components @ rotation))
        rotation = left @ right
    return lambda vectors: scaled(vectors) @ (axes @ rotation) > 0


def faiss_itq(training: Vectors, n_bits: int, seed: int) -> Callable[[Vectors], Any]:
    """FAISS's transform, learned from all rows (by default it takes ten per dimension only)."""
    faiss = require("faiss", extra="faiss")
    transform = faiss.ITQTransform(training.shape[1], n_bits, True)
    transform.itq.seed = seed
    transform.max_train_per_dim = len(training)
    transform.train(training)
    return lambda vectors: transform.apply(np.ascontiguousarray(vectors)) > 0


TRAINERS: dict[str, Train] = {"ITQ": ours, "FAISS": faiss_itq, "textbook": textbook}


def run(context: Context) -> list[Row]:
    """Every trainer, by seeds."""
    which = sets_of(context, ["sift-photos"])[0]
    n_bits = context.pick(QUICK_BITS, N_BITS)
    rows = []
    for name, train in TRAINERS.items():
        for seed in range(context.seeds):
            settings = {
                **which.settings(),
                "method": name,
                "n_bits": n_bits,
                "learned_from": N_ROWS,
                "seed": seed,
            }

            def measure(train: Train = train, seed: int = seed) -> Values:
                return recall_of(which, train, n_bits, seed)

            rows.append(context.measured(STORE, settings, measure))
    return rows


def recall_of(which: BenchSet, train: Train, n_bits: int, seed: int) -> Values:
    """Recall by Hamming ranking of what a trainer learned from `N_ROWS` rows."""
    data = load(which)
    base = np.asarray(data.base, dtype=np.float32)
    rows = np.sort(np.random.default_rng(0).permutation(len(base))[:N_ROWS])
    bits_of = train(base[rows], n_bits, seed)
    codes, query_codes = pack_bits(bits_of(base)), pack_bits(bits_of(data.queries))
    found = hamming_neighbors(codes, query_codes, DEPTH, n_bits=n_bits)
    return recalls(which, found.ids, neighbors=(10,))


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall by trainer."""
    return [table_of(rows, ("method", "n_bits"), ("recall10@100",))]


EXPERIMENT = study(
    "itq_beside_faiss",
    title="Our ITQ beside FAISS's",
    question="Is the rival that everything is compared with as good as FAISS's and a textbook's?",
    setup=f"{N_BITS} bits of SIFT descriptors, learned from the same {N_ROWS:,} rows.",
    run=run,
    draw=draw,
)
