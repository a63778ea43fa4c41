"""Every table of accuracy: the paper's claims and our studies, run by `sghash reproduce`.

`evaluation` measures, `experiments` ask and keep rows, `benchmarks/` (outside) take times.

Each file of `claims/` says in `EXPERIMENT` which claim it tests, where the paper shows it, and what
stands in the place of what; `docs/results.md` has the verdicts. Each file of `studies/` asks what
the paper does not, in the same form and with the same rows.

`experiment` says what an experiment is, `sets` holds the data, `hashing` the runs that several
experiments share, `timings` the time of fits, `streams` rows that are never stored, `comparisons`
who is ahead, `contenders` what is compared at equal bytes, `pictures` what several draw,
`reproduction` the page that shows all.
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
        "untouched",
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


#: Tables beyond the paper's claims, asked for by name: `all` is the paper.
STUDIES: dict[str, str] = {
    name: f"sghash.experiments.studies.{name}"
    for name in (
        "recall_table",
        "quantizers",
        "reranking",
        "from_the_shell",
        "choices",
        "mnist_error",
        "labels",
        "scales",
        "decoders",
        "networks",
        "integer_programs",
        "itq_beside_faiss",
        "published_precision",
    )
}


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`."""
    known = EXPERIMENTS | STUDIES
    if name not in known:
        listed = ", ".join(known)
        raise InvalidInput(f"there is no experiment {name!r}: choose one of {listed}, or all")
    found: Experiment = importlib.import_module(known[name]).EXPERIMENT
    return found
