"""A tenth of the labels: label mAP of codes without labels, with, and of linear probes.

| method                       | labels                                                           |
|------------------------------|------------------------------------------------------------------|
| "SGH"                        | none                                                             |
| "SGH(supervised)"            | by a softmax over hard signs (the default)                       |
| "SGH(supervised, bernoulli)" | by the paper's pair model                                        |
| "SGH, probe on codes"        | logistic regression from the codes of SGH; ITQ codes of scores   |
| "LDA, then ITQ"              | ITQ codes of the discriminants of the labelled images            |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.data.loading import load_dataset
from sghash.evaluation.metrics import label_average_precision
from sghash.experiments.experiment import Context, Drawing, Row, Table, Values
from sghash.experiments.sets import BenchSet, load
from sghash.experiments.studies.tables import sets_of, study, table_of
from sghash.kernels import hamming_neighbors
from sghash.models import model_class
from sghash.validation import Codes

STORE = "labels"
LENGTHS, QUICK_LENGTHS = (16, 32, 64), (16,)
N_QUERIES, DEPTH = 1000, 1000


class Task(NamedTuple):
    """Vectors and queries with their labels, the rows whose label is known, and the code length."""

    base: NDArray[Any]
    labels: NDArray[np.int64]
    queries: NDArray[Any]
    query_labels: NDArray[np.int64]
    chosen: NDArray[np.int64]
    n_bits: int
    seed: int
    n_steps: int | None

    def score(self, codes: Codes, query_codes: Codes) -> float:
        """Label mAP of a Hamming ranking."""
        depth = min(DEPTH, len(codes))
        found = hamming_neighbors(codes, query_codes, depth, n_bits=self.n_bits)
        return label_average_precision(self.labels, self.query_labels, found.ids, n=depth)

    def of_scores(self, scores: Any, query_scores: Any) -> float:
        """Label mAP of ITQ codes of class scores."""
        model = model_class("ITQ")(n_bits=self.n_bits, random_state=self.seed).fit(scores)
        return self.score(model.encode(scores), model.encode(query_scores))

    def fitted(self, **options: Any) -> Any:
        """SGH, given the chosen labels; it looks at them if it is supervised."""
        if self.n_steps is not None:
            options["n_steps"] = self.n_steps
        y = np.full(len(self.base), -1)
        y[self.chosen] = self.labels[self.chosen]
        model = model_class("SGH")(n_bits=self.n_bits, random_state=self.seed)
        return model.set_params(**options).fit(self.base, y)


def of_codes(**options: Any) -> Callable[[Task], float]:
    """The measure of SGH with these options."""

    def measure(task: Task) -> float:
        model = task.fitted(**options)
        return task.score(model.encode(task.base), model.encode(task.queries))

    return measure


def probe(task: Task) -> float:
    """What one would do without a model for labels."""
    from sklearn.linear_model import LogisticRegression

    model, chosen = task.fitted(), task.chosen
    bits, query_bits = model.transform(task.base), model.transform(task.queries)
    line = LogisticRegression(max_iter=200).fit(bits[chosen], task.labels[chosen])
    return task.of_scores(line.decision_function(bits), line.decision_function(query_bits))


def discriminants(task: Task) -> float:
    """The classical linear way."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    scale = float(np.max(task.base))
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1)
    lda.fit(task.base[task.chosen] / scale, task.labels[task.chosen])
    return task.of_scores(lda.transform(task.base / scale), lda.transform(task.queries / scale))


METHODS: dict[str, Callable[[Task], float]] = {
    "SGH": of_codes(),
    "SGH, probe on codes": probe,
    "SGH(supervised)": of_codes(supervised=True),
    "SGH(supervised, bernoulli)": of_codes(supervised=True, recipe__pair_loss="bernoulli"),
    "LDA, then ITQ": discriminants,
}


def task_of(context: Context, which: BenchSet, n_bits: int, seed: int) -> Task:
    """Every seed labels another tenth of the rows."""
    base, labels = load(which).base, np.asarray(load(which).base_labels).astype(np.int64)
    data = load_dataset(which.source) if not context.quick else None
    queries, query_labels = base[:150], labels[:150]
    if data is not None:
        queries = np.asarray(data.queries)[:N_QUERIES]
        query_labels = np.asarray(data.query_labels)[:N_QUERIES].astype(np.int64)
    chosen = np.random.default_rng(seed).choice(len(base), size=len(base) // 10, replace=False)
    steps = 100 if context.quick else None
    return Task(base, labels, queries, query_labels, chosen, n_bits, seed, steps)


def run(context: Context) -> list[Row]:
    """Every method at every length, by seeds."""
    which = sets_of(context, ["mnist"])[0]
    rows = []
    for n_bits in context.pick(QUICK_LENGTHS, LENGTHS):
        for seed in range(context.seeds):
            for name, method in METHODS.items():
                settings = {**which.settings(), "method": name, "n_bits": n_bits, "seed": seed}

                def measure(n: int = n_bits, s: int = seed, how: Any = method) -> Values:
                    return {"label_average_precision": how(task_of(context, which, n, s))}

                rows.append(context.measured(STORE, settings, measure))
    return rows


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Label mAP by method and length."""
    return [table_of(rows, ("n_bits", "method"), ("label_average_precision",))]


EXPERIMENT = study(
    "labels",
    title="A tenth of the labels",
    question="What do a tenth of MNIST's labels add to codes, beside linear probes?",
    setup=f"label mAP@{DEPTH} on MNIST, Hamming ranking of all 60,000 images for {N_QUERIES:,} "
    "test images; another tenth of the training images is labelled for each seed.",
    run=run,
    draw=draw,
)
