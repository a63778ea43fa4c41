"""Collections as somebody makes them who has only a shell: created, searched and verified there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sghash.errors import SghashError
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.hashing import recalls
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of

STORE = "from_the_shell"
SETS = ("minilm-wordnet",)
MODELS = ("GenerativeQuantizer", "ProductQuantizer", "SGH")
N_BITS, K, DEPTH, SEEDS = 64, 10, 100, 3


def run(context: Context) -> list[Row]:
    """One collection per set, model and seed."""
    models = context.pick(("ProductQuantizer",), MODELS)
    n_bits = context.pick(16, N_BITS)
    return [
        context.measured(
            STORE,
            {**which.settings(), "model": model, "n_bits": n_bits, "seed": seed},
            lambda which=which, model=model, seed=seed: measure(which, model, n_bits, seed),  # type: ignore[misc]
        )
        for which in sets_of(context, SETS)
        for model in models
        for seed in range(context.pick(1, min(context.seeds, SEEDS)))
    ]


def measure(which: BenchSet, model: str, n_bits: int, seed: int) -> Values:
    """Recall of what `sghash search` prints, and bytes per row of what `sghash verify` read."""
    data = load(which)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("base", "queries"):
            np.save(Path(folder) / f"{name}.npy", getattr(data, name))
        made = ["create", "c", "base.npy", "--model", model, "--bits", n_bits, "--seed", seed]
        _sghash(folder, *made, "--metric", which.metric)
        _sghash(folder, "verify", "c")
        answers = json.loads(_sghash(folder, "search", "c", "queries.npy", "--k", DEPTH, "--json"))
        about = json.loads(_sghash(folder, "info", "c", "--json"))
    ids = np.array([[one["id"] for one in answer["neighbors"]] for answer in answers])
    return {"bytes_per_row": about["bytes_per_row"], **recalls(which, ids, neighbors=(K,))}


def _sghash(folder: str, *words: object) -> str:
    """Run a verb in `folder`; return what it prints."""
    command = [sys.executable, "-m", "sghash", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SghashError(f"sghash {words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall by set and model."""
    values = [f"recall{K}@{K}", f"recall{K}@{DEPTH}", "bytes_per_row"]
    return [table_of(rows, ("set", "model", "n_bits"), values, "Collections made from the shell")]


EXPERIMENT = study(
    "from_the_shell",
    title="A collection from the shell",
    question="What recall do `sghash create` and `sghash search` give, model by model?",
    setup=f"{N_BITS} bits (8 bytes) per row, options as they are; every verb runs in a process of "
    "its own, and `sghash verify` reads every byte.",
    run=run,
    draw=draw,
)
