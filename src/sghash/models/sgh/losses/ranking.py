"""What Hamming ranking needs and reconstruction alone does not give: neighbours with near codes.

With s the codes as -1 and +1, s_i . s_k = l - 2 Hamming(i, k). Anchor i and its neighbour j lose

| `pair_loss`   | loss of the pair (i, j)                                                          |
|---------------|----------------------------------------------------------------------------------|
| "softmax"     | -log softmax_k(g s_i . s_k)[j] over all other vectors k of the step              |
| "bernoulli"   | -log sigmoid(y (g s_i . s_k + o)), y = 1 for k = j, -1 for another's neighbour k |

(the second is the paper's pair model with a learned scale g and offset o). The codes that are
really used are compared, not their probabilities: soft codes learn to be near while their signs
are not. The gradient passes through the sign as if it were the mean 2p - 1 (straight-through).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from sghash.models.sgh.losses.terms import TermGradient, TermView
from sghash.models.sgh.paper.encoder import sigmoid, softplus
from sghash.models.sgh.paper.generative import Floats
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.scaling import Units
from sghash.models.shared.neighborhoods import k_nearest_others
from sghash.validation import Ids, Vectors, available_cores

#: First value of g times the square root of the number of bits: about where training takes it.
FIRST_SCALE = 2.5
#: Weight times number of bits of pairs of neighbours: short codes need them most, and long ones
#: would learn the pairs of the sample by heart.
PAIR_WEIGHT_BITS = 2560.0
#: The same for the nearest vectors within a batch, by goal, and the least and most they weigh.
BATCH_WEIGHT_BITS = {"balanced": 320.0, "hamming": 1280.0, "reconstruction": 0.0}
BATCH_WEIGHTS = (5.0, 20.0)
#: Axes in which neighbours are looked for: a few wrong ones do no harm, the time counts.
SEARCH_AXES = 128


class PairLoss(NamedTuple):
    """A weighted loss with its gradients by the codes (m, l), by g and by o."""

    loss: float
    codes: Floats
    scale: float
    offset: float


#: (codes (m, l), anchors (n,), positives (n,), g, o, weight of a pair) -> loss and gradients.
LossFunction = Callable[[Floats, Ids, Ids, float, float, float], PairLoss]


def softmax_loss(
    codes: Floats, anchors: Ids, positives: Ids, scale: float, offset: float, weight: float
) -> PairLoss:
    """Every other row of `codes` stands against the positive; anchors ascend."""
    from sghash.kernels.learning.ranking import softmax_gradient

    own = codes if len(anchors) == len(codes) else codes[anchors]
    products = own @ codes.T
    loss, by_scale = softmax_gradient(products, anchors, positives, scale, codes.shape[1], weight)
    if len(anchors) == len(codes):  # every row is an anchor: one product serves both sides
        products += products.T.copy()
        return PairLoss(loss, products @ codes, by_scale, 0.0)
    by_codes = products.T @ own
    by_codes[anchors] += products @ codes
    return PairLoss(loss, by_codes, by_scale, 0.0)


def bernoulli_loss(
    codes: Floats, anchors: Ids, positives: Ids, scale: float, offset: float, weight: float
) -> PairLoss:
    """The anchor and its positive are similar; the anchor and the next pair's positive are not."""
    by_codes = np.zeros_like(codes)
    loss = by_scale = by_offset = 0.0
    for partners, y in ((positives, 1.0), (np.roll(positives, -1), -1.0)):
        products = np.einsum("ij,ij->i", codes[anchors], codes[partners])
        margins = y * (scale * products + offset)
        loss += float(softplus(-margins).sum(dtype=np.float64))
        slopes = (-y * weight * sigmoid(-margins)).astype(codes.dtype)
        by_scale += float(slopes @ products)
        by_offset += float(slopes.sum(dtype=np.float64))
        weighted = codes.dtype.type(scale) * slopes[:, None]
        by_codes[anchors] += weighted * codes[partners]
        # An anchor stands once; a vector may be the nearest of several.
        np.add.at(by_codes, partners, weighted * codes[anchors])
    return PairLoss(weight * loss, by_codes, by_scale, by_offset)


PAIR_LOSSES: dict[str, LossFunction] = {"softmax": softmax_loss, "bernoulli": bernoulli_loss}


class Ranking:
    """weight * mean loss of pairs within the vectors of a step.

    The last 2 * `n_pairs` rows of a batch are anchors and then their neighbours; without pairs
    every row is an anchor, and its neighbour is the nearest other row of the batch.
    """

    def __init__(
        self,
        *,
        n_bits: int,
        weight: float,
        pair_loss: str,
        n_pairs: int,
        metric: str,
        mean: Vectors,
    ) -> None:
        self.n_bits, self.weight, self.loss_of = n_bits, weight, PAIR_LOSSES[pair_loss]
        self.n_pairs, self.metric, self.mean = n_pairs, metric, mean

    def start_parameters(self) -> Mapping[str, Floats]:
        """The logarithm of g, and o."""
        scale = np.asarray(np.log(FIRST_SCALE / np.sqrt(self.n_bits)))
        return {"pair_scale": scale, "pair_offset": np.asarray(0.0)}

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """No extra vectors: the batch holds the pairs."""
        return None

    def gradient(self, view: TermView) -> TermGradient:
        """Loss, and gradients by the logits of the batch, the scale and the offset."""
        logits, p = view.logits, view.probabilities
        anchors, positives = self._pairs(view.vectors)
        one = logits.dtype.type(1)
        codes = np.where(logits > 0, one, -one)
        scale = float(np.exp(view.parameters["pair_scale"]))
        offset = float(view.parameters["pair_offset"])
        answer = self.loss_of(codes, anchors, positives, scale, offset, self.weight / len(anchors))
        by_logits = answer.codes
        by_logits *= 2 * p
        by_logits *= 1 - p
        return TermGradient(
            answer.loss,
            logits=by_logits,
            parameters={
                "pair_scale": np.asarray(scale * answer.scale),
                "pair_offset": np.asarray(answer.offset),
            },
        )

    def _pairs(self, vectors: Vectors) -> tuple[Ids, Ids]:
        m, n = len(vectors), self.n_pairs
        if n:
            return np.arange(m - 2 * n, m - n), np.arange(m - n, m)
        return np.arange(m), nearest_others(vectors, self.metric, self.mean)


def nearest_others(vectors: Vectors, metric: str, mean: Vectors) -> Ids:
    """Row of the nearest other vector for each of `vectors` (m, D), which are shifted by `mean`."""
    if metric == "ip":
        vectors = vectors + mean
    scores = vectors @ vectors.T
    if metric != "ip":
        scores -= 0.5 * np.einsum("ij,ij->i", vectors, vectors)
    np.fill_diagonal(scores, -np.inf)
    return scores.argmax(axis=1)


def find_neighbors(vectors: Vectors, n_neighbors: int, metric: str, mean: Vectors) -> Ids:
    """Rows (n, k) of the nearest other vectors among `vectors` (n, D), shifted by `mean`.

    D are principal axes, of which the first `SEARCH_AXES` are looked at. "cosine" stands for
    vectors that were brought to unit length before, so that "l2" ranks them.
    """
    seen = vectors + mean if metric == "ip" else vectors
    seen = np.ascontiguousarray(seen[:, :SEARCH_AXES])
    kind = "ip" if metric == "ip" else "l2"
    k = min(n_neighbors, len(vectors) - 1)
    return k_nearest_others(seen, k, metric=kind, threads=available_cores())


class PairBatches:
    """Batches of random rows, then random anchors, then one neighbour of each.

    `vectors` (n, D) are ready for the trainer; `neighbors` (a, k) are rows of the neighbours of
    the first a of them.
    """

    def __init__(self, vectors: Vectors, neighbors: Ids, *, n_plain: int, n_pairs: int) -> None:
        self.vectors, self.neighbors = vectors, neighbors
        self.n_plain, self.n_pairs, self.n_rows = n_plain, n_pairs, len(vectors)
        self.batch_size = n_plain + 2 * n_pairs
        self._buffer = np.empty((self.batch_size, vectors.shape[1]), dtype=np.float32)

    def draw(self, scaling: Units, rng: np.random.Generator) -> Batch:
        """Return the next batch; its memory is used again by the next draw."""
        rows = rng.integers(self.n_rows, size=self.n_plain)
        if self.n_pairs:
            anchors = rng.integers(len(self.neighbors), size=self.n_pairs)
            column = rng.integers(self.neighbors.shape[1], size=self.n_pairs)
            rows = np.concatenate([rows, anchors, self.neighbors[anchors, column]])
        np.take(self.vectors, rows, axis=0, out=self._buffer)
        return Batch(self._buffer, rows)

    def take(self, n_rows: int, rng: np.random.Generator) -> Vectors:
        """Return `n_rows` random rows, or all if there are fewer."""
        if n_rows >= self.n_rows:
            return self.vectors
        return self.vectors[rng.choice(self.n_rows, size=n_rows, replace=False)]
