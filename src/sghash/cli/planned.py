"""`sghash create` without knobs: the collection is planned, built and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sghash.cli.inputs import open_rows
from sghash.cli.printing import show
from sghash.cli.progress import named_bar
from sghash.cli.rows_in import Incoming
from sghash.collection import Collection

#: Options that say by hand what a plan would choose.
BY_HAND = ("fitted", "spec", "n_bits", "options", "partitions", "empty")
#: Options that only a plan can follow.
OF_PLANS = ("target_recall", "bytes_per_vector", "queries")
NONE = "none"


def planning_options(function: Any) -> Any:
    """`--target-recall`, `--bytes-per-vector` and `--queries`."""
    for decorate in (
        click.option(
            "--queries", metavar="FILE",
            help="A sample of real queries, where they are unlike the rows: recall is theirs.",
        ),
        click.option(
            "--bytes-per-vector", type=click.IntRange(min=1), metavar="N",
            help="The most that a code and a kept vector may take together.",
        ),
        click.option(
            "--target-recall", type=float, metavar="SHARE", default=0.95, show_default=True,
            help="The share of the true neighbours that a search shall find.",
        ),
    ):  # fmt: skip
        function = decorate(function)
    return function


def build_planned(
    collection: Path,
    incoming: Incoming,
    *,
    metric: str | None,
    target_recall: float,
    bytes_per_vector: int | None,
    keep_vectors: str | None,
    queries: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Build, and show what was tried, what was chosen and what it reaches."""
    asked = None
    if queries is not None:
        rows = open_rows(queries)
        asked = rows.read(0, rows.shape[0])
    with named_bar("building", "step") as bar:
        built = Collection.build(
            collection, incoming.rows, incoming.ids, incoming.columns or None, metric=metric,
            target_recall=target_recall, bytes_per_vector=bytes_per_vector,
            keep_vectors=None if keep_vectors == NONE else keep_vectors or "auto",
            queries=asked, random_state=seed, callback=bar,
        )  # fmt: skip
    with built:
        plan, stats = built.plan, built.stats()
    assert plan is not None  # `build` has just made it
    facts = {
        "collection": str(collection),
        "rows": stats["n_rows"],
        "model": plan.pipeline,
        "n_bits": stats["n_bits"],
        "dimensions": stats["width"],
        "metric": plan.metric,
        "keep_vectors": stats["keep_vectors"],
        "target_recall": plan.target_recall,
        "expected_recall": plan.expected,
        "bytes_per_row": round(stats["bytes_per_row"], 1),
        "tried": list(plan.tried),
        "fingerprint": stats["fingerprint"],
    }
    share = stats["bytes_per_row"] / (4 * stats["width"])
    lines = [
        *str(plan).split("\n"),
        f"{stats['n_rows']} rows, {stats['bytes_per_row']:.0f} bytes each with ids and lists, "
        f"{share:.2f} of float32: {collection}",
    ]
    show(facts, lines, as_json=as_json)
