"""What a training is asked to do: the options of `SGH` as numbers that training uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sghash.models.sgh.losses.ranking import BATCH_WEIGHT_BITS, BATCH_WEIGHTS, PAIR_WEIGHT_BITS
from sghash.models.sgh.recipe import Recipe
from sghash.models.sgh.training.optimizer import Schedule

#: Most steps that are taken unasked.
MAX_STEPS = 4000
#: Learning rate of the description length alone; beside a ranking loss, which takes few steps; and
#: there with a hidden layer, which takes many.
RATE, RANKED_RATE, HIDDEN_RATE = 0.01, 0.02, 0.005
#: Neighbours of a vector that are learned from where `neighbors` says nothing.
FEW_NEIGHBORS = 5
#: Codes of at most so many bits learn from as many neighbours as `neighbors` would name: they take
#: little time anyway, and each bit has much to say.
SHORT_BITS, SHORT_NEIGHBORS = 8, 10
#: No vector is an anchor more often than this: small sets have nothing more to say.
MAX_VISITS = 20


#: Vectors that are looked at per bit where `neighbors` says nothing, of 16 bits at least.
POOL_ROWS_PER_BIT = 3000
#: Numbers in a set of usual size (60,000 vectors of width 384), and how many times as many steps
#: are taken at most where there are more of them.
USUAL_NUMBERS, MOST_MORE = 60_000 * 384, 2.0


#: Times that a vector is an anchor, each time with another of its neighbours perhaps.
VISITS = 2
#: Vectors from which axes, units and the start are learned.
SAMPLE_ROWS = 6000
#: Codes beyond this length start from more vectors, and are learned slowly: the start is good.
LONG_BITS, LONG_START_ROWS, LONG_STEPS, LONG_RATE = 256, 60_000, 200, 0.0003
#: Principal axes that training looks at, without and with `neighbors`, or as many as bits.
AXES = {False: 128, True: 256}


class Plan(NamedTuple):
    """The budget of a training beside a ranking loss.

    `n_rows` vectors are looked at in `n_axes` principal axes, which `n_sample` of them decide; the
    first codes fit `n_start` of them. A step sees `n_pairs` pairs of a vector and one of its
    `n_neighbors` neighbours, which are looked for around the first `n_anchors` vectors, and a
    second time among neighbours of neighbours if `again`.
    """

    n_rows: int
    n_sample: int
    n_start: int
    n_axes: int
    n_steps: int
    n_pairs: int
    n_anchors: int
    n_neighbors: int
    again: bool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked options; those that `SGH` names as it does, the others in its `recipe`.

    `ranked` says below whether a ranking loss stands beside the description length, which also
    depends on the vectors: a single one has no neighbour.
    """

    n_bits: int
    metric: str
    goal: str
    neighbors: int
    hidden: int
    supervised: bool
    coding: str
    gradient: str | None
    kl_weight: float | tuple[float, float]
    n_steps: int | None
    batch_size: int
    learning_rate: float | None
    max_rows: int | None
    recipe: Recipe

    @property
    def asks_for_ranking(self) -> bool:
        """Whether the options ask for a ranking loss."""
        return bool(self.neighbors) or self.goal != "reconstruction"

    @property
    def describes(self) -> bool:
        """Whether the description length is trained beside a ranking loss.

        A hidden layer learns neighbours better without it; the decoder is then fitted at the end.
        """
        return not (self.hidden and self.neighbors and self.recipe.refit)

    def estimator(self, *, ranked: bool) -> str:
        """Return the gradient: the exact one beside a ranking loss, which needs no draws."""
        return self.gradient or ("exact" if ranked else "approximate")

    def schedule_kind(self, *, ranked: bool) -> str:
        """Return how the learning rate falls."""
        falling = "cosine" if ranked else "step"
        return self.recipe.schedule or ("sqrt" if self.recipe.optimizer == "sgd" else falling)

    def schedule(self, n_steps: int, *, ranked: bool) -> Schedule:
        """Return the learning rates and divergence weights of a training of `n_steps`."""
        return Schedule(
            n_steps,
            self.schedule_kind(ranked=ranked),
            self.first_rate(ranked=ranked),
            self.recipe.chosen("decay"),
            self.recipe.decay_every or max(1, -(-n_steps // 2)),
            self.kl_weight,
        )

    @property
    def is_long(self) -> bool:
        """Whether codes are so long that training adds little to a good start."""
        return self.n_bits > LONG_BITS and not self.neighbors

    @property
    def near(self) -> int:
        """Neighbours that are looked for with care; 0 where a rough look is enough."""
        is_short = self.n_bits <= SHORT_BITS and not self.hidden
        return self.neighbors or (SHORT_NEIGHBORS if is_short else 0)

    def first_rate(self, *, ranked: bool) -> float:
        """Return the learning rate of the first step."""
        if self.learning_rate is not None:
            return self.learning_rate
        if not ranked:
            return RATE
        if self.hidden:
            return HIDDEN_RATE
        return LONG_RATE if self.is_long else RANKED_RATE

    def budget(self, steps_per_pass: float | None = None, *, ranked: bool) -> int:
        """Return the number of steps that the options ask for; longer codes need more of them."""
        if self.recipe.n_passes is not None and steps_per_pass is not None:
            return max(1, round(self.recipe.n_passes * steps_per_pass))
        if self.n_steps is not None:
            return self.n_steps
        if not ranked:
            return min(MAX_STEPS, 500 + 45 * self.n_bits)
        if self.near:
            return 2500 if self.hidden else min(1500, 600 + 8 * self.n_bits)
        return LONG_STEPS if self.is_long else min(1000, 200 + 6 * self.n_bits)

    def plan(self, n_rows: int, width: int, n_steps: int) -> Plan:
        """Return the budget of a training beside a ranking loss, of at most `n_rows` vectors.

        `n_steps` is the budget of a set of usual size: larger and wider ones have more to learn
        from, small ones less.
        """
        n_pairs = max(1, min(self.batch_size, n_rows) // (1 if self.hidden else 2))
        more = 1.0 if self.hidden else np.sqrt(n_rows * width / USUAL_NUMBERS).clip(1, MOST_MORE)
        if not self.near:
            n_rows = min(n_rows, max(POOL_ROWS_PER_BIT * max(16, self.n_bits), n_rows // 4))
        if self.n_steps is None and self.recipe.n_passes is None:
            n_steps = min(int(more * n_steps), -(-MAX_VISITS * n_rows // n_pairs))
        n_anchors = n_rows if self.near else max(1, n_steps * n_pairs // VISITS)
        return Plan(
            n_rows=n_rows,
            n_sample=min(n_rows, SAMPLE_ROWS),
            n_start=min(n_rows, LONG_START_ROWS if self.is_long else SAMPLE_ROWS),
            n_axes=max(AXES[bool(self.near)], self.n_bits),
            n_steps=n_steps,
            n_pairs=n_pairs,
            n_anchors=min(n_rows, n_anchors),
            n_neighbors=min(self.near or FEW_NEIGHBORS, n_rows - 1),
            again=bool(self.near),
        )

    @property
    def ranking_weight(self) -> float:
        """Weight of the ranking loss."""
        if self.recipe.pair_weight is None and not self.near:
            return float(np.clip(BATCH_WEIGHT_BITS[self.goal] / self.n_bits, *BATCH_WEIGHTS))
        return self.supervision_weight

    @property
    def supervision_weight(self) -> float:
        """Weight of neighbours, labels and known pairs."""
        if self.recipe.pair_weight is not None:
            return float(self.recipe.pair_weight)
        return PAIR_WEIGHT_BITS / self.n_bits
