"""Ten per cent of MNIST's labels: label mAP of codes without labels, with, and of linear probes.

    SGHASH_DATA=... python benchmarks/sgh_labels.py [--bits 16 32 64] [--seeds 5]

Every seed labels another tenth of the training images. Codes of all 60,000 images are ranked by
Hamming distance to those of 1,000 test images; label mAP@1000 counts an image as right if it has
the query's digit. The methods:

    SGH                          no labels
    SGH(supervised)              the labels by a softmax over hard signs (the default)
    SGH(supervised, bernoulli)   the labels by the paper's pair model
    SGH, probe on codes          logistic regression from the codes of SGH to the digits, learned
                                 from the labelled images; ITQ codes of its ten scores
    LDA, then ITQ                ITQ codes of the nine discriminants of the labelled images
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import sghash
from sghash import ITQ, SGH
from sghash.evaluation import format_table
from sghash.evaluation.metrics import label_average_precision
from sghash.evaluation.summary import estimate
from sghash.kernels import hamming_neighbors

DEPTH = 1000


class Task:
    def __init__(self, n_queries: int) -> None:
        data = sghash.load_dataset("mnist").in_memory()
        self.base, self.labels = data.base.array, np.asarray(data.base_labels).astype(np.int64)
        self.queries = np.asarray(data.queries)[:n_queries]
        self.query_labels = np.asarray(data.query_labels)[:n_queries]

    def score(self, codes, query_codes, n_bits: int) -> float:
        found = hamming_neighbors(codes, query_codes, DEPTH, n_bits=n_bits)
        return label_average_precision(self.labels, self.query_labels, found.ids, n=DEPTH)


def of_scores(task: Task, scores, query_scores, n_bits: int, seed: int) -> float:
    """Codes of class scores."""
    model = ITQ(n_bits=n_bits, random_state=seed).fit(scores)
    return task.score(model.encode(scores), model.encode(query_scores), n_bits)


def measure(task: Task, n_bits: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(task.base), size=len(task.base) // 10, replace=False)
    y = np.full(len(task.base), -1)
    y[chosen] = task.labels[chosen]
    found = {}
    for name, options in {
        "SGH": {},
        "SGH(supervised)": {"supervised": True},
        "SGH(supervised, bernoulli)": {
            "supervised": True,
            "recipe__pair_loss": "bernoulli",
        },
    }.items():
        model = SGH(n_bits, random_state=seed).set_params(**options).fit(task.base, y)
        codes, query_codes = model.encode(task.base), model.encode(task.queries)
        found[name] = task.score(codes, query_codes, n_bits)
        if name == "SGH":
            bits, query_bits = model.transform(task.base), model.transform(task.queries)
            probe = LogisticRegression(max_iter=200).fit(bits[chosen], y[chosen])
            scores = (probe.decision_function(part) for part in (bits, query_bits))
            found["SGH, probe on codes"] = of_scores(task, *scores, n_bits, seed)
    rows = task.base[chosen] / 255.0
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(rows, y[chosen])
    scores = (lda.transform(part / 255.0) for part in (task.base, task.queries))
    found["LDA, then ITQ"] = of_scores(task, *scores, n_bits, seed)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=1000)
    options = parser.parse_args()
    task = Task(options.queries)
    cells: dict[str, list[str]] = {}
    for n_bits in options.bits:
        runs = []
        for seed in range(options.seeds):
            runs.append(measure(task, n_bits, seed))
            print(n_bits, seed, {k: round(v, 4) for k, v in runs[-1].items()}, flush=True)
        for name in runs[0]:
            value = estimate([run[name] for run in runs])
            half = "" if value.half_width is None else f" ± {value.half_width:.3f}"
            cells.setdefault(name, []).append(f"{value.mean:.3f}{half}")
    headings = ["method", *(f"{n} bits" for n in options.bits)]
    print(format_table(headings, [[name, *row] for name, row in cells.items()], markdown=True))


if __name__ == "__main__":
    main()
