"""What the second stage of a collection gives: recall by what decides."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sghash.collection import Collection
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.hashing import make_model, recalls, spec_for
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of

STORE = "reranking"
SETS = ("mnist", "cifar10-jpeg", "cifar10-gist", "sift-photos", "glove100", "minilm-wordnet")
N_BITS, QUICK_BITS, K = 64, 16, 10
SEARCHES: dict[str, dict[str, Any]] = {
    "Hamming": {},
    "decoder, 10 k": {"rerank": "decoder"},
    "decoder, all": {"rerank": "decoder", "shortlist": "all"},
    "vectors, 10 k": {"rerank": "vectors"},
    "vectors, 100 k": {"rerank": "vectors", "shortlist": 100 * K},
}
_BLOCK = 50_000


def run(context: Context) -> list[Row]:
    """One collection per set, searched in every way."""
    n_bits = context.pick(QUICK_BITS, N_BITS)
    return [
        context.measured(
            STORE,
            {**which.settings(), "n_bits": n_bits, "seed": 0},
            lambda which=which: measure(context, which, n_bits),  # type: ignore[misc]
        )
        for which in sets_of(context, SETS)
    ]


def measure(context: Context, which: BenchSet, n_bits: int) -> Values:
    """Recall10@10 of every search in a collection that keeps float16 vectors."""
    data = load(which)
    model = make_model(spec_for(context, "SGH"), n_bits, 0, which.metric).fit(data.base)
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collection"
        with Collection.create(
            path, model, keep_vectors="float16", metric=which.metric
        ) as collection:
            for start in range(0, len(data.base), _BLOCK):
                collection.add(data.base[start : start + _BLOCK])
            collection.compact()
            for name, options in SEARCHES.items():
                found = collection.search(data.queries, K, threads=context.threads, **options)
                values[name] = recalls(which, found.ids, neighbors=(K,))[f"recall{K}@{K}"]
    return values


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall by set and by what decides."""
    return [table_of(rows, ("set", "n_bits"), list(SEARCHES), f"Recall{K}@{K} by what decides")]


EXPERIMENT = study(
    "reranking",
    title="What the second stage gives",
    question="How much recall do the decoder and kept vectors add to a search by Hamming distance?",
    setup=f"SGH of {N_BITS} bits in a collection with float16 vectors; the shortlist holds ten "
    "or a hundred times as many rows as are asked for, or all.",
    run=run,
    draw=draw,
)
