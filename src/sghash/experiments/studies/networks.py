"""DeepSGH with neighbours beside ITQ: recall by Hamming ranking, and what encoding costs."""

from __future__ import annotations

from collections.abc import Sequence

from sghash.experiments.comparisons import estimates, geometric_mean
from sghash.experiments.experiment import Context, Drawing, Row, Table
from sghash.experiments.hashing import measure_model
from sghash.experiments.sets import BenchSet
from sghash.experiments.studies.tables import ALL_SETS, sets_of, study, table_of
from sghash.models import model_class
from sghash.optional import require

STORE = "networks"
LENGTHS, QUICK_LENGTHS = (16, 32), (16,)
N_STEPS = 500
MODELS = ("ITQ", "DeepSGH")


def run(context: Context) -> list[Row]:
    """Both models on every set and length, one seed."""
    return [
        _row(context, which, name, n_bits)
        for which in sets_of(context, ALL_SETS)
        for n_bits in context.pick(QUICK_LENGTHS, LENGTHS)
        for name in MODELS
    ]


def _row(context: Context, which: BenchSet, name: str, n_bits: int) -> Row:
    options = {} if name == "ITQ" else {"n_steps": context.pick(5, N_STEPS), "metric": which.metric}
    settings = {**which.settings(), "model": name, "options": options, "n_bits": n_bits, "seed": 0}

    def measure() -> dict[str, float]:
        if name == "DeepSGH":
            require("torch", extra="torch")
        model = model_class(name)(n_bits=n_bits, random_state=0, **options)
        return measure_model(context, which, model, neighbors=(10,))

    return context.measured(STORE, settings, measure)


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall and times; the ratio of recalls and of encoding times."""
    values = ("recall10@100", "train_seconds", "encode_seconds")
    cells = []
    for value in values:
        found = estimates(rows, value, ("set", "n_bits", "model"))
        places = dict.fromkeys(cell[:2] for cell in found if cell[2] == "DeepSGH")
        ratios = [found[*place, "DeepSGH"].mean / found[*place, "ITQ"].mean for place in places]
        cells.append([value.replace("_", " "), f"{geometric_mean(ratios):.3f}" if ratios else ""])
    caption = "Geometric means of DeepSGH's values as multiples of ITQ's"
    return [
        table_of(rows, ("set", "n_bits", "model"), values),
        Table(["value", "ratio"], cells, caption),
    ]


EXPERIMENT = study(
    "networks",
    title="Networks",
    question="What do networks on both sides add to recall, and what does their encoding cost?",
    setup=f"`DeepSGH` with neighbours, its ready encoder of two hidden layers, {N_STEPS} steps, "
    "one seed, beside ITQ; Recall10@100 on five whole sets. Needs the extra torch. Times depend on "
    "the machine: read the ratio.",
    run=run,
    draw=draw,
)
