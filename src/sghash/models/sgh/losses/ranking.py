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
from sghash.models.shared.neighborhoods import near_others
from sghash.validation import Ids, Vectors

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
#: Most steps whose rows are drawn at once.
STEPS_AT_ONCE = 1000


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

    own = codes[anchors]
    products = own @ codes.T
    loss, by_scale = softmax_gradient(products, anchors, positives, scale, codes.shape[1], weight)
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

    A batch is `n_pairs` anchors and then a neighbour of each. A neighbour is
    not an anchor in its turn: the nearest of a row need not have that row for its own nearest,
    least of all by inner products, where long vectors are everybody's.
    """

    def __init__(
        self,
        *,
        n_bits: int,
        weight: float,
        pair_loss: str,
        n_pairs: int,
    ) -> None:
        self.n_bits, self.weight, self.loss_of = n_bits, weight, PAIR_LOSSES[pair_loss]
        self.n_pairs = n_pairs

    def start_parameters(self) -> Mapping[str, Floats]:
        """The logarithm of g, and o."""
        scale = np.asarray(np.log(FIRST_SCALE / np.sqrt(self.n_bits)))
        return {"pair_scale": scale, "pair_offset": np.asarray(0.0)}

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """No extra vectors: the batch holds the pairs."""
        return None

    def gradient(self, view: TermView) -> TermGradient:
        """Loss, and gradients by the logits of the batch, the scale and the offset."""
        from sghash.kernels.learning.ranking import signs_of, through_signs

        logits, p = view.logits, view.probabilities
        anchors = np.arange(self.n_pairs)
        positives = anchors + self.n_pairs
        codes = np.empty_like(logits)
        signs_of(logits, codes)
        scale = float(np.exp(view.parameters["pair_scale"]))
        offset = float(view.parameters["pair_offset"])
        answer = self.loss_of(codes, anchors, positives, scale, offset, self.weight / len(anchors))
        through_signs(answer.codes, p)
        return TermGradient(
            answer.loss,
            logits=answer.codes,
            parameters={
                "pair_scale": np.asarray(scale * answer.scale),
                "pair_offset": np.asarray(answer.offset),
            },
        )


def find_neighbors(
    vectors: Vectors,
    n_neighbors: int,
    metric: str,
    mean: Vectors,
    *,
    n_rows: int,
    again: bool,
    rng: np.random.Generator,
) -> Ids:
    """Rows (n_rows, k) of near other vectors of the first of `vectors` (n, D), shifted by `mean`.

    D are principal axes, of which the first `SEARCH_AXES` are looked at. "cosine" stands for
    vectors that were brought to unit length before, so that "l2" ranks them.
    """
    seen = np.ascontiguousarray(vectors[:, :SEARCH_AXES])
    kind = "ip" if metric == "ip" else "l2"
    if kind == "ip":
        seen = seen + mean[:SEARCH_AXES]
    return near_others(seen, n_neighbors, metric=kind, rng=rng, n_rows=n_rows, again=again)


class PairBatches:
    """Batches of random anchors, then one neighbour of each.

    `vectors` (n, D) are ready for the trainer; `neighbors` (a, k) are rows of the neighbours of
    the first a of them.
    """

    def __init__(self, vectors: Vectors, neighbors: Ids, *, n_pairs: int) -> None:
        self.vectors, self.neighbors = vectors, neighbors
        self.n_pairs, self.n_rows, self.batch_size = n_pairs, len(vectors), 2 * n_pairs
        self._buffer = np.empty((self.batch_size, vectors.shape[1]), dtype=np.float32)
        self._waiting: Ids = np.empty((0, self.batch_size), dtype=np.int64)

    def draw(self, scaling: Units, rng: np.random.Generator) -> Batch:
        """Return the next batch; its memory is used again by the next draw."""
        if not len(self._waiting):
            self._waiting = self._rows_of_steps(rng)
        rows, self._waiting = self._waiting[0], self._waiting[1:]
        # All rows are in range: any other mode than the default fills the buffer itself.
        np.take(self.vectors, rows, axis=0, out=self._buffer, mode="clip")
        return Batch(self._buffer, rows)

    def _rows_of_steps(self, rng: np.random.Generator) -> Ids:
        """Rows (steps, batch_size) of the next steps, drawn at once: a draw costs more than a row.

        Every vector is an anchor once before any is one again.
        """
        n = len(self.neighbors)
        n_steps = max(1, min(STEPS_AT_ONCE, n // self.n_pairs))
        order = rng.permutation(max(n, n_steps * self.n_pairs)) % n
        left = order[: n_steps * self.n_pairs].reshape(n_steps, self.n_pairs)
        column = rng.integers(self.neighbors.shape[1], size=left.shape)
        return np.concatenate([left, self.neighbors[left, column]], axis=1)

    def take(self, n_rows: int, rng: np.random.Generator) -> Vectors:
        """Return `n_rows` random rows, or all if there are fewer."""
        if n_rows >= self.n_rows:
            return self.vectors
        return self.vectors[rng.choice(self.n_rows, size=n_rows, replace=False)]
