"""`sghash demo`: the main job on built-in data, in a few seconds."""

from __future__ import annotations

import click

from sghash.cli.frame import json_option, show
from sghash.demo import run_digits
from sghash.evaluation.tables import format_table


@click.command("demo", epilog="Example:\n\n  sghash demo --json")
@click.option("--seed", default=0, show_default=True, help="Seed of everything random.")
@json_option
def command(seed: int, as_json: bool) -> None:
    """Fit, encode and search scikit-learn's handwritten digits, and print what came out."""
    result = run_digits(seed=seed, say=lambda text: click.echo(text, err=True))
    rows = [
        (
            row["model"],
            str(row["n_bits"]),
            str(row["bytes"]),
            f"{row['recall10_at_10']:.3f}",
            f"{row['recall10_at_50']:.3f}",
            f"{row['fit_seconds']:.2f}",
        )
        for row in result["rows"]
    ]
    headings = ("model", "bits", "bytes/vector", "recall10@10", "recall10@50", "fit s")
    text = (
        f"\n{result['n']} digits of {result['dimensions']} pixels, {result['queries']} queries, "
        "Hamming ranking against exact Euclidean neighbours\n\n" + format_table(headings, rows)
    )
    show(result, text, as_json=as_json)
