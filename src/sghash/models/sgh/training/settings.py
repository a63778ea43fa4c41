"""What a training is asked to do: the options of `SGH` as numbers that training uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sghash.models.sgh.losses.ranking import BATCH_WEIGHT_BITS, BATCH_WEIGHTS, PAIR_WEIGHT_BITS
from sghash.models.sgh.recipe import Recipe
from sghash.models.sgh.training.optimizer import Schedule

#: Most steps that are taken unasked.
MAX_STEPS = 4000
#: Steps beside a ranking loss: at most with the nearest vectors of the batch; with neighbours.
MAX_RANKED_STEPS, NEIGHBOR_STEPS = 2000, 1500
#: With neighbours and a hidden layer, which has more to learn.
HIDDEN_STEPS = 2500


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
    learning_rate: float
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
            self.learning_rate,
            self.recipe.chosen("decay"),
            self.recipe.decay_every or max(1, -(-n_steps // 2)),
            self.kl_weight,
        )

    def budget(self, steps_per_pass: float | None = None, *, ranked: bool) -> int:
        """Return the number of steps that the options ask for; longer codes need more of them."""
        if self.recipe.n_passes is not None and steps_per_pass is not None:
            return max(1, round(self.recipe.n_passes * steps_per_pass))
        if self.n_steps is not None:
            return self.n_steps
        if not ranked:
            return min(MAX_STEPS, 500 + 45 * self.n_bits)
        if self.neighbors:
            return HIDDEN_STEPS if self.hidden else NEIGHBOR_STEPS
        return min(MAX_RANKED_STEPS, 500 + 25 * self.n_bits)

    @property
    def ranking_weight(self) -> float:
        """Weight of the ranking loss."""
        if self.recipe.pair_weight is None and not self.neighbors:
            return float(np.clip(BATCH_WEIGHT_BITS[self.goal] / self.n_bits, *BATCH_WEIGHTS))
        return self.supervision_weight

    @property
    def supervision_weight(self) -> float:
        """Weight of neighbours, labels and known pairs."""
        if self.recipe.pair_weight is not None:
            return float(self.recipe.pair_weight)
        return PAIR_WEIGHT_BITS / self.n_bits
