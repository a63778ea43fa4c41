"""What the entropy term and the stochastic bits are good for: wasted bits, speed of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import unpack_bits
from sghash.experiments.claims.templates import DUPLICATE, WASTED, bit_entropies
from sghash.experiments.comparisons import Difference, estimates, paired, text_of
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
from sghash.experiments.findings import ends
from sghash.experiments.hashing import measure_model, options_of_model
from sghash.experiments.sets import TEXTS, WORDS, BenchSet, image_sets, load
from sghash.experiments.standings import leads, worst_of
from sghash.models import model_class

STORE = "entropy_term"
LENGTHS, QUICK_LENGTHS = (32, 128), (16,)
#: The entropy is judged at all lengths, the draws at the first.
SEEDS = 5
FULL, WITHOUT, FIXED = "the paper's", "no entropy", "no draws"
#: The paper's training; without the entropy, the prior kept; and with bits rounded, not drawn.
VARIANTS: dict[str, dict[str, Any]] = {
    FULL: {},
    WITHOUT: {"recipe__terms": {"entropy": 1.0}},
    FIXED: {"gradient": "straight-through"},
}
BY = ("set", "n_bits", "variant")
#: A smaller difference of the bits in use is none.
LEAST_BITS = 0.5
# Rows that are trained on: batches are drawn from them, and 5,000 steps draw each often.
MOST_ROWS = 60_000


def sets_of(context: Context) -> list[BenchSet]:
    """All sets, each with rows enough for the steps of a training."""
    chosen = image_sets(context) if context.quick else (*image_sets(context), WORDS, TEXTS)
    return [which._replace(n_vectors=min(which.n_vectors, MOST_ROWS)) for which in chosen]


def run(context: Context) -> list[Row]:
    """Train the paper's model with and without each part."""
    lengths = context.pick(QUICK_LENGTHS, LENGTHS)
    rows = []
    for which, n_bits, variant in product(sets_of(context), lengths, VARIANTS):
        if variant == FIXED and n_bits != lengths[0]:
            continue
        for seed in range(min(context.seeds, SEEDS)):
            settings = {
                **which.settings(),
                "variant": variant,
                "n_bits": n_bits,
                "n_steps": context.pick(1000, 5000),
                "seed": seed,
            }
            settings["options"] = options_of_model(model_of(which, settings))
            rows.append(context.measured(STORE, settings, _Measure(context, which, settings)))
    return rows


def model_of(which: BenchSet, settings: Mapping[str, Any]) -> Any:
    """The paper's model, but for what the variant changes."""
    model = model_class("SGH").paper(
        n_bits=settings["n_bits"], n_steps=settings["n_steps"], random_state=settings["seed"],
        metric=which.metric,
    )  # fmt: skip
    return model.set_params(**VARIANTS[settings["variant"]])


class _Measure:
    """One training of one variant."""

    def __init__(self, context: Context, which: BenchSet, settings: dict[str, Any]) -> None:
        self.context, self.which, self.settings = context, which, settings

    def __call__(self) -> Values:
        chosen = self.settings
        model = model_of(self.which, chosen)
        values = measure_model(self.context, self.which, model, neighbors=(10,))
        bits = unpack_bits(model.encode(load(self.which).base), chosen["n_bits"])
        values |= wasted(bits)
        seen = values["error_seen"]
        # After a tenth of the steps; reports come at every twentieth.
        values["early_error"] = float(np.interp(0.1, np.linspace(0.05, 1, len(seen)), seen))
        return values


def wasted(bits: NDArray[np.bool_]) -> Values:
    """Constant bits, and bits that repeat (or negate) an earlier one."""
    constant = bit_entropies(bits) < WASTED
    varying = bits[:, ~constant].astype(np.float32)
    centred = varying - varying.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    alike = np.abs((centred / lengths).T @ (centred / lengths)) > DUPLICATE
    repeated = np.triu(alike, 1).any(axis=0)
    return {"constant_bits": float(constant.sum()), "repeated_bits": float(repeated.sum())}


def verdict(rows: Sequence[Row]) -> Verdict:
    """Does the entropy save bits, and do draws speed training up?"""
    rows = _with_wasted(check_rows(rows))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row["settings"][name] for name in BY), []).append(row)
    lost, used = (estimates(rows, value, BY) for value in ("wasted", "bits_in_use"))
    cells = list(dict.fromkeys(cell[:2] for cell in groups))
    places = [p for p in cells if (*p, FULL) in groups and (*p, WITHOUT) in groups]
    drawn = [place for place in places if (*place, FIXED) in groups]

    def gap(place: tuple[Any, ...], one: str, other: str, value: str) -> Difference:
        return paired(groups[(*place, one)], groups[(*place, other)], value)

    gaps = [gap(place, WITHOUT, FULL, "wasted") for place in places]
    gaps += [gap(place, FULL, WITHOUT, "bits_in_use") for place in places]
    gaps += [gap(place, FIXED, FULL, "early_error") for place in drawn]
    n = len(places)
    signs = leads(gaps, [0.0] * n + [LEAST_BITS] * n + [0.0] * len(drawn))
    # Where none is lost outright, how evenly the bits are used decides.
    saved = [first or second for first, second in zip(signs[:n], signs[n : 2 * n], strict=True)]
    faster = signs[2 * n :]
    said = [
        f"{place[0]}, {place[1]} bits: {lost[(*place, FULL)].mean:.1f} wasted and "
        f"{used[(*place, FULL)].mean:.1f} in use with the entropy, "
        f"{lost[(*place, WITHOUT)].mean:.1f} and {used[(*place, WITHOUT)].mean:.1f} without"
        for place in places
    ]
    is_whole = len(places) == len(cells) and all(one.seeds is not None for one in gaps)
    halves = [_outcome(signs, is_whole) for signs in (saved, faster)]
    summary = (
        f"First half, {halves[0]}: the entropy saves bits in {saved.count(1)} of {len(saved)} "
        f"cells and wastes more in {saved.count(-1)}. Second half, {halves[1]}: after a tenth of "
        f"the steps the error is lower with draws on {faster.count(1)} of {len(faster)} sets and "
        f"higher on {faster.count(-1)}. "
    )
    return Verdict(worst_of(halves), summary + "; ".join(said) + ".")


def _outcome(signs: Sequence[int], is_whole: bool) -> str:
    """A half of the claim has to hold in most cells, to fail in none, and to be known."""
    if -1 in signs:
        return "differs"
    return "agrees" if 2 * signs.count(1) > len(signs) and is_whole else "open"


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Error against vectors seen, and the numbers."""
    sets = list(dict.fromkeys(row["settings"]["set"] for row in check_rows(rows)))
    names = ("constant_bits", "repeated_bits", "bits_in_use", "recall10@100")
    found = {name: estimates(rows, name, ("set", "n_bits", "variant")) for name in names}
    cells = [
        [place[0], str(place[1]), place[2], *(text_of(found[value][place]) for value in names)]
        for place in found["bits_in_use"]
    ]
    headings = ["set", "bits", "variant", "constant bits", "repeated bits", "bits in use",
                "Recall10@100"]  # fmt: skip
    caption = (
        f"Constant: less than {WASTED} bits of entropy. Repeated: |correlation| with an earlier "
        f"bit above {DUPLICATE}"
    )
    return [*(_drawing(rows, name) for name in sets), Table(headings, cells, caption)]


def _with_wasted(rows: Sequence[Row]) -> list[Row]:
    return [
        {
            **row,
            "values": {
                **row["values"],
                "wasted": row["values"]["constant_bits"] + row["values"]["repeated_bits"],
            },
        }
        for row in rows
    ]


def _drawing(rows: Sequence[Row], name: str) -> Drawing:
    curves = []
    shortest = min(row["settings"]["n_bits"] for row in rows)
    for variant in VARIANTS:
        place = {"set": name, "variant": variant, "n_bits": shortest}
        here = [row["values"] for row in rows if place.items() <= row["settings"].items()]
        mean = np.mean([values["error_seen"] for values in here], axis=0)
        curves.append((variant, here[0]["samples_seen"], mean))

    def make() -> Any:
        from sghash.plots import lines

        return lines(
            curves, x_label="vectors seen", y_label="squared error", x_scale="log", y_scale="log",
            title=name, size=(7.4, 4.0),
        )  # fmt: skip

    caption = f"{name}, {shortest} bits: reconstruction error on training vectors by vectors seen."
    told = ends({variant: float(errors[-1]) for variant, _, errors in curves})
    return Drawing(make, caption, f"{caption} {told}.")


EXPERIMENT = Experiment(
    name="entropy_term",
    title="Entropy term and stochastic bits",
    claim="The entropy term helps to avoid wasting bits, and the stochasticity accelerates the "
    "optimization.",
    shown="Section 4, binary autoencoder",
    setup=f"MNIST, SIFT, GIST, word vectors and text embeddings, at most {MOST_ROWS:,} vectors of "
    f"each, {LENGTHS[0]} and {LENGTHS[1]} bits, {SEEDS} seeds: the paper's training, and the same "
    "with the entropy of q(h|x) taken out of its divergence while the prior stays. At "
    f"{LENGTHS[0]} bits also with bits rounded instead of drawn, as a "
    "deterministic autoencoder has them. Bits are saved where fewer are constant or repeated, or, "
    f"where none is, where more than {LEAST_BITS:g} more are in use. Faster is a lower training "
    "error after a tenth of the steps. Trainings of one seed share start, batches and the rows "
    "that are watched, so they are compared seed by seed.",
    notes="What may explain a difference: where every bit is worth much more than its price none "
    "dies even without the term, and there is none to save; and a rounded bit gives a gradient "
    "without noise, which helps in the first steps.",
    run=run,
    verdict=verdict,
    draw=draw,
)
