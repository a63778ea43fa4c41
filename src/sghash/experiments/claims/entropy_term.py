"""What the entropy term and the stochastic bits are good for: wasted bits, speed of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.bits import unpack_bits
from sghash.evaluation.summary import Estimate
from sghash.experiments.claims.templates import DUPLICATE, WASTED, bit_entropies
from sghash.experiments.comparisons import estimates, lead, text_of
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
from sghash.experiments.hashing import measure_model
from sghash.experiments.sets import BenchSet, image_sets, load
from sghash.models import model_class

STORE = "entropy_term"
N_BITS, QUICK_BITS = 32, 16
SEEDS = 2
FULL, WITHOUT, FIXED = "entropy and draws", "no entropy", "no entropy, no draws"
#: The paper's training, without its entropy term, and without drawing bits either.
VARIANTS: dict[str, dict[str, Any]] = {
    FULL: {},
    WITHOUT: {"kl_weight": 0.0},
    FIXED: {"kl_weight": 0.0, "gradient": "straight-through"},
}


def run(context: Context) -> list[Row]:
    """Train the paper's model with and without each part."""
    n_bits = context.pick(QUICK_BITS, N_BITS)
    rows = []
    for which in image_sets(context):
        for variant in VARIANTS:
            for seed in range(min(context.seeds, SEEDS)):
                settings = {
                    **which.settings(),
                    "variant": variant,
                    "n_bits": n_bits,
                    "n_steps": context.pick(1000, 5000),
                    "seed": seed,
                }
                measure = _Measure(context, which, settings)
                rows.append(context.measured(STORE, settings, measure))
    return rows


class _Measure:
    """One training of one variant."""

    def __init__(self, context: Context, which: BenchSet, settings: dict[str, Any]) -> None:
        self.context, self.which, self.settings = context, which, settings

    def __call__(self) -> Values:
        chosen = self.settings
        model = model_class("SGH").paper(
            n_bits=chosen["n_bits"], n_steps=chosen["n_steps"], random_state=chosen["seed"]
        )
        model.set_params(**VARIANTS[chosen["variant"]])
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
    """Does the term save bits, and do draws speed training up?"""
    check_rows(rows)
    lost = _wasted_bits(rows)
    recalls = estimates(rows, "recall10@100", ("set", "variant"))
    early = estimates(rows, "early_error", ("set", "variant"))
    said, saved, faster = [], [], []
    for name in dict.fromkeys(cell[0] for cell in recalls):
        saved.append(lead(lost[name, WITHOUT], lost[name, FULL]))
        faster.append(lead(early[name, FIXED], early[name, WITHOUT]))
        said.append(
            f"{name}: "
            + "; ".join(
                f"{variant}: {lost[name, variant].mean:.1f} wasted bits, Recall10@100 "
                f"{recalls[name, variant].mean:.3f}, error after a tenth of the steps "
                f"{early[name, variant].mean:.4g}"
                for variant in VARIANTS
            )
        )
    n = len(saved)
    summary = (
        f"The entropy term saves bits on {saved.count(1)} of {n} sets, wastes more on "
        f"{saved.count(-1)}; draws speed training up on {faster.count(1)}, slow it down on "
        f"{faster.count(-1)}. "
    )
    if saved.count(1) == faster.count(1) == n:
        outcome = "agrees"
    elif -1 in (*saved, *faster):
        outcome = "differs"
    else:
        outcome = "open"
    return Verdict(outcome, summary + ". ".join(said) + ".")


def draw(rows: Sequence[Row]) -> list[Table | Drawing]:
    """Error against vectors seen, and the numbers."""
    sets = list(dict.fromkeys(row["settings"]["set"] for row in check_rows(rows)))
    names = ("constant_bits", "repeated_bits", "bits_in_use", "recall10@100")
    found = {name: estimates(rows, name, ("set", "variant")) for name in names}
    cells = [
        [variant, name, *(text_of(found[value][name, variant]) for value in names)]
        for name in sets
        for variant in VARIANTS
    ]
    headings = ["variant", "set", "constant bits", "repeated bits", "bits in use", "Recall10@100"]
    caption = (
        f"Constant: less than {WASTED} bits of entropy. Repeated: |correlation| with an earlier "
        f"bit above {DUPLICATE}"
    )
    return [*(_drawing(rows, name) for name in sets), Table(headings, cells, caption)]


def _wasted_bits(rows: Sequence[Row]) -> dict[Any, Estimate]:
    added = [
        {
            **row,
            "values": {"wasted": row["values"]["constant_bits"] + row["values"]["repeated_bits"]},
        }
        for row in rows
    ]
    return dict(estimates(added, "wasted", ("set", "variant")))


def _drawing(rows: Sequence[Row], name: str) -> Drawing:
    def make() -> Any:
        from sghash.plots import lines

        curves = []
        for variant in VARIANTS:
            here = [
                row["values"]
                for row in rows
                if row["settings"]["set"] == name and row["settings"]["variant"] == variant
            ]
            mean = np.mean([values["error_seen"] for values in here], axis=0)
            curves.append((variant, here[0]["samples_seen"], mean))
        return lines(
            curves, x_label="vectors seen", y_label="squared error", x_scale="log", y_scale="log",
            title=name, size=(7.4, 4.0),
        )  # fmt: skip

    caption = f"{name}: reconstruction error on training vectors by vectors seen."
    return Drawing(make, caption, f"{caption} One falling curve per variant.")


EXPERIMENT = Experiment(
    name="entropy_term",
    title="Entropy term and stochastic bits",
    claim="The entropy term helps to avoid wasting bits, and the stochasticity accelerates the "
    "optimization.",
    shown="Section 4, binary autoencoder",
    setup=f"MNIST, SIFT and GIST, {N_BITS} bits, {SEEDS} seeds: the paper's training; the same "
    "without the divergence, which holds the entropy term; and the same with bits rounded instead "
    "of drawn, as a deterministic autoencoder has them.",
    notes="What may explain a difference: where no bit dies even without the term, there is none "
    "to save; and a rounded bit gives a gradient without noise, which helps in the first "
    "steps.",
    run=run,
    verdict=verdict,
    draw=draw,
)
