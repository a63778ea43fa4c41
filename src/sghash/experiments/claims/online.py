"""Learning from a stream, piece by piece and once, beside learning from all vectors at hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sghash.experiments.comparisons import (
    LEAST_SEEDS,
    difference,
    estimates,
    measurements,
    scaled,
    text_of,
)
from sghash.experiments.experiment import (
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Values,
    Verdict,
    check_rows,
)
from sghash.experiments.findings import listed
from sghash.experiments.hashing import (
    DEFAULT,
    make_model,
    measure_fitted,
    measure_model,
    options_of,
    reconstructing,
    spec_for,
)
from sghash.experiments.pictures import series_of
from sghash.experiments.sets import QUICK_CLUSTERS, SIFT, BenchSet, load
from sghash.experiments.standings import outcome_of_bounds

STORE = "online"
N_BITS, QUICK_BITS = 32, 16
SEEDS = 3
PIECES = 50
BATCH = 500
ONLINE, SAME, FULL = "online, one pass", "batch, as many vectors", "batch, default"
VALUE = "recall10@100"
#: Online learning may lose this share of the recall.
ALLOWED = 0.03


def run(context: Context) -> list[Row]:
    """Online with a look after parts of the stream; batch with the same and the usual budget."""
    which = context.pick(QUICK_CLUSTERS, SIFT)
    n_bits = context.pick(QUICK_BITS, N_BITS)
    rows = []
    for seed in range(min(context.seeds, SEEDS)):
        for way in (ONLINE, SAME, FULL, "ITQ"):
            spec = spec_of(context, way)
            settings = {
                **which.settings(),
                "way": way,
                "options": options_of(spec, n_bits, which.metric),
                "n_bits": n_bits,
                "seed": seed,
            }
            measure = _Measure(context, which, way, n_bits, seed)
            rows.append(context.measured(STORE, settings, measure))
    return rows


def spec_of(context: Context, way: str) -> str:
    """The model of a way: pieces have no neighbours, so they are compared without a ranking."""
    names = {"ITQ": "ITQ", FULL: DEFAULT}
    return spec_for(context, names[way]) if way in names else reconstructing()


class _Measure:
    """One way of learning."""

    def __init__(self, context: Context, which: BenchSet, way: str, n_bits: int, seed: int) -> None:
        self.context, self.which, self.way = context, which, way
        self.n_bits, self.seed = n_bits, seed

    def __call__(self) -> Values:
        spec = spec_of(self.context, self.way)
        model: Any = make_model(spec, self.n_bits, self.seed, self.which.metric)
        if self.way == ONLINE:
            return self._online(model)
        if self.way == SAME:
            model.set_params(n_steps=None, recipe__n_passes=1.0)
        return measure_model(self.context, self.which, model, neighbors=(10,))

    def _online(self, model: Any) -> Values:
        base = load(self.which).base
        model.set_params(n_steps=max(1, len(base) // BATCH), batch_size=BATCH)
        size = -(-len(base) // PIECES)
        seen, recalls, seconds, values = [], [], 0.0, {}
        for number in range(PIECES):
            start = time.perf_counter()
            model.partial_fit(base[number * size : (number + 1) * size])
            seconds += time.perf_counter() - start
            if number + 1 in (1, 2, 5, 10, 20, PIECES):
                values = measure_fitted(self.context, self.which, model, neighbors=(10,))
                seen.append(min((number + 1) * size, len(base)))
                recalls.append(values[VALUE])
        return {**values, "train_seconds": seconds, "vectors_seen": seen, "recall_seen": recalls}


def verdict(rows: Sequence[Row]) -> Verdict:
    """Does one pass in pieces come near a fit with as many vectors?"""
    found = {cell[0]: v for cell, v in measurements(check_rows(rows), VALUE, ("way",)).items()}
    said = "; ".join(
        f"{way} {text_of(value.seeds)}, {value.seeds.n} seeds" for way, value in found.items()
    )
    if not {ONLINE, SAME, FULL} <= set(found):
        return Verdict("open", f"Recall10@100: {said}. Not all ways were measured.")
    # Above 0 where less is lost than is allowed.
    spare = difference(found[ONLINE], scaled(found[SAME], 1 - ALLOWED))
    batch = found[SAME].seeds.mean
    share = 100 * found[ONLINE].seeds.mean / batch
    told = f"One pass over the stream reaches {share:.1f} % of a batch training on as many vectors"
    if spare.half is None:
        told += f", with fewer than {LEAST_SEEDS} seeds"
    else:
        ends = (share + sign * 100 * spare.half / batch for sign in (-1, 1))
        told += f" (95 % interval {' to '.join(f'{end:.1f}' for end in ends)} %)"
    outcome = outcome_of_bounds([spare._replace(mean=-spare.mean)])
    return Verdict(
        outcome,
        f"Recall10@100: {said}. {told}, where {100 * (1 - ALLOWED):.0f} % were asked for, and "
        f"{100 * found[ONLINE].seeds.mean / found[FULL].seeds.mean:.1f} % of the default training.",
    )


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Recall along the stream, and the final numbers."""
    check_rows(rows)
    names = (VALUE, "reconstruction_error", "train_seconds")
    found = {name: estimates(rows, name, ("way",)) for name in names}
    cells = [
        [way, *(text_of(found[name].get((way,)), 3 if name == VALUE else 1) for name in names)]
        for (way,) in found[VALUE]
    ]

    online = [row["values"] for row in rows if row["settings"]["way"] == ONLINE]
    points = [
        {"settings": {"x": x}, "values": {"y": y}}
        for values in online
        for x, y in zip(values["vectors_seen"], values["recall_seen"], strict=True)
    ]
    by_seen = estimates(points, "y", ("x",))
    x = [cell[0] for cell in by_seen]
    levels = {way: found[VALUE][way,].mean for way in (SAME, FULL, "ITQ")}

    def make() -> Any:
        from sghash.plots import lines

        return lines(
            [series_of(ONLINE, x, list(by_seen.values()))], x_label="vectors seen",
            y_label="Recall10@100", x_scale="log", title="Learning along a stream", levels=levels,
            size=(7.4, 4.0),
        )  # fmt: skip

    caption = "Recall10@100 of the model after parts of the stream; levels are batch trainings."
    told = f"It goes from {by_seen[x[0],].mean:.3f} after {x[0]:,} vectors to "
    told += f"{by_seen[x[-1],].mean:.3f} after {x[-1]:,}; the levels are "
    told += listed([f"{way} {level:.3f}" for way, level in levels.items()])
    return [
        Drawing(make, caption, f"{caption} {told}."),
        Table(["way", "Recall10@100", "squared error", "seconds"], cells, "After all vectors"),
    ]


EXPERIMENT = Experiment(
    name="online",
    title="Online learning",
    claim="Distributional SGD is simple and amenable to online settings.",
    shown="Section 3.1, in words",
    setup=f"500,000 SIFT descriptors in {PIECES} pieces, each seen once, {N_BITS} bits, {SEEDS} "
    "seeds, beside a batch training on as many vectors, our default training and ITQ. Amenable: "
    f"no more than {100 * ALLOWED:.0f} % of Recall10@100 is lost to the batch training, with all "
    "of the 95 % interval over seeds and queries.",
    notes="What may explain a difference: every vector is seen once, in 1,000 steps, and the "
    "first pieces are all that the start is made from.",
    run=run,
    verdict=verdict,
    draw=draw,
)
