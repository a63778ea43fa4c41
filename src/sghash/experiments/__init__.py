"""Every figure and table of the paper: one file per claim, run by `sghash reproduce`.

Each file says in `EXPERIMENT` which claim it tests, where the paper shows it, and what stands in
the place of what; `docs/results.md` has the verdicts.

`experiment` says what an experiment is, `sets` holds the data, `hashing` the runs that several
experiments share, `comparisons` who is ahead, `pictures` what several draw, `reproduction` the
page that shows all.
"""

from __future__ import annotations

import importlib

from sghash.errors import InvalidInput
from sghash.experiments.experiment import Experiment

#: Every experiment, in the order of the page: name -> module with `EXPERIMENT`.
EXPERIMENTS: dict[str, str] = {
    name: f"sghash.experiments.claims.{name}"
    for name in (
        "reconstruction",
        "training_time",
        "recall_l2",
        "recall_by_length",
        "streamed_recall",
        "inner_product",
        "templates",
        "convergence",
        "estimators",
        "entropy_term",
        "sensitivity",
        "online",
        "modern_embeddings",
    )
}


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`."""
    if name not in EXPERIMENTS:
        listed = ", ".join(EXPERIMENTS)
        raise InvalidInput(f"there is no experiment {name!r}: choose one of {listed}, or all")
    found: Experiment = importlib.import_module(EXPERIMENTS[name]).EXPERIMENT
    return found
