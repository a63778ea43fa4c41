"""What the caller knows of pairs and labels, as terms beside the objective (semi-supervised SGH).

`PairTerm` is the paper's pair model, p(y = 1 | h_i, h_j) = sigmoid(a h_i . h_j + o) with a learned
scale a and offset o (of 0/1 codes h_i . h_j >= 0: without o nothing could be dissimilar). Its loss
l(h_i . h_j) = softplus(-+(a h_i . h_j + o)) is not quadratic, yet every estimator of `gradients`
has a closed form, because a product h_ik h_jk takes two values only. With C the number of bits
that agree (signed coding) or are both set (binary), q_k the chance that bit k counts, and
h_i . h_j = 2 C - l or C,

| estimator          | D_k for bit k of vector i                                                |
|--------------------|--------------------------------------------------------------------------|
| "approximate"      | step l'(h_i . h_j) h_jk at draws                                         |
| "straight-through" | the same at the likelier codes                                           |
| "distributional"   | l(h_ik = 1) - l(h_ik = 0) at draws, from the product without bit k       |
| "exact"            | dq_k/dp_ik (E l(C_-k + 1) - E l(C_-k)), C_-k the count without bit k     |

The last sums over the distribution of a count of independent bits, found bit by bit forwards and
backwards: l² operations per pair for the expectation over all 4^l pairs of codes.

`LabelTerm` compares the codes that are really used: hard signs s, -log softmax_k(g s_i . s_k) over
the labelled rows of the step, averaged over the rows k of the label of i; the gradient passes
through the sign as through the mean 2p - 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.models.sgh.losses.terms import Term, TermGradient, TermView
from sghash.models.sgh.paper.encoder import sigmoid, softplus
from sghash.models.sgh.paper.generative import Floats, code_step
from sghash.models.sgh.paper.gradients import codes_for
from sghash.models.sgh.training.settings import Settings
from sghash.validation import Ids, Vectors

#: First scale times the square root of the number of bits, as for neighbours.
FIRST_SCALE = 2.5
#: Pairs, or labelled rows, per step.
STEP_PAIRS, STEP_LABELS = 256, 512
#: Pairs that are drawn from labels for the pair model, half of them similar.
LABEL_PAIRS = 1 << 17


class KnownPairs(NamedTuple):
    """Rows `first` and `second` (m,) each, and whether they are `similar` (m,) bool."""

    first: Ids
    second: Ids
    similar: NDArray[np.bool_]


def check_pairs(pairs: Any, n_rows: int) -> KnownPairs:
    """(i, j, similar), each (m,): rows, and whether they belong together."""
    sentence = "pairs must be (i, j, similar), three arrays of the same length: rows, rows, bools"
    try:
        first, second, similar = (np.asarray(part) for part in pairs)
    except (TypeError, ValueError) as error:
        raise InvalidInput(sentence) from error
    whole = first.dtype.kind in "iu" and second.dtype.kind in "iu"
    if not whole or not first.shape == second.shape == similar.shape or first.ndim != 1:
        raise InvalidInput(sentence)
    if not len(first) or not np.isin(similar, (0, 1)).all():
        raise InvalidInput(sentence)
    low, high = min(first.min(), second.min()), max(first.max(), second.max())
    if low < 0 or high >= n_rows:
        raise InvalidInput(
            f"pairs name rows between {low} and {high}, the vectors have rows 0 to {n_rows - 1}"
        )
    return KnownPairs(first.astype(np.int64), second.astype(np.int64), similar.astype(bool))


def check_labels(y: ArrayLike | None, n_rows: int) -> Ids:
    """Labels (n,) as whole numbers, -1 for unlabelled rows; two rows at least share one."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iub":
        came = "None" if y is None else f"{labels.dtype} of the shape {labels.shape}"
        raise InvalidInput(
            f"y must be whole numbers, one per row ({n_rows}), with -1 for unlabelled rows, got "
            f"{came}: give such labels, or use supervised=False"
        )
    known, counts = np.unique(labels[labels != -1], return_counts=True)
    if not len(known) or counts.max() < 2:
        raise InvalidInput("y labels no two rows alike: label more rows")
    return labels.astype(np.int64)


def supervision_terms(
    settings: Settings, vectors: Any, y: ArrayLike | None, pairs: Any
) -> list[Term]:
    """Terms for labels `y`, if the model is supervised, and for known `pairs` of rows."""
    if not settings.supervised and pairs is None:
        return []
    if not isinstance(vectors, np.ndarray):
        raise InvalidInput("labels and pairs need the vectors in memory: give an array")
    weight, n_bits = settings.supervision_weight, settings.n_bits
    estimator = settings.estimator(ranked=settings.asks_for_ranking)

    def pair_term(known: KnownPairs) -> PairTerm:
        return PairTerm(
            vectors, known, n_bits=n_bits, weight=weight, estimator=estimator,
            coding=settings.coding,
        )  # fmt: skip

    terms: list[Term] = []
    if pairs is not None:
        terms.append(pair_term(check_pairs(pairs, len(vectors))))
    if settings.supervised:
        labels = check_labels(y, len(vectors))
        if settings.recipe.chosen("pair_loss") == "softmax":
            terms.append(LabelTerm(vectors, labels, n_bits=n_bits, weight=weight))
        else:
            terms.append(pair_term(pairs_of_labels(labels)))
    return terms


def pairs_of_labels(labels: Ids) -> KnownPairs:
    """Random pairs of labelled rows, half of the same label (as far as the labels allow)."""
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(labels != -1)
    rows = rows[np.argsort(labels[rows], kind="stable")]
    _, starts, counts = np.unique(labels[rows], return_index=True, return_counts=True)
    first, second = rng.integers(len(rows), size=(2, LABEL_PAIRS))
    group = np.searchsorted(starts, first, side="right") - 1
    within = starts[group] + (rng.random(LABEL_PAIRS) * counts[group]).astype(np.int64)
    second = np.where(np.arange(LABEL_PAIRS) % 2 == 0, within, second)
    i, j = (rows[places[first != second]] for places in (first, second))
    return KnownPairs(i, j, labels[i] == labels[j])


class PairTerm:
    """weight * mean of -log p(y | h_i, h_j) over pairs drawn in every step."""

    def __init__(
        self,
        vectors: NDArray[Any],
        pairs: KnownPairs,
        *,
        n_bits: int,
        weight: float,
        estimator: str,
        coding: str,
    ) -> None:
        self.vectors, self.pairs, self.n_bits, self.weight = vectors, pairs, n_bits, weight
        self.estimator, self.coding = estimator, coding

    def start_parameters(self) -> Mapping[str, Floats]:
        """The logarithm of the scale a, and the offset o."""
        scale = np.asarray(np.log(FIRST_SCALE / np.sqrt(self.n_bits)))
        return {"known_pair_scale": scale, "known_pair_offset": np.asarray(0.0)}

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """The vectors of some pairs: all first ones, then all second ones."""
        chosen = rng.integers(len(self.pairs.first), size=STEP_PAIRS)
        self._similar = self.pairs.similar[chosen]
        self._rng = rng
        rows = np.concatenate([self.pairs.first[chosen], self.pairs.second[chosen]])
        return self.vectors[rows].astype(np.float32)

    def gradient(self, view: TermView) -> TermGradient:
        """Loss, and gradients by the logits of the pairs, the scale and the offset."""
        p = view.extra_probabilities
        if p is None:
            raise InvalidInput("a PairTerm needs the logits of the vectors that it drew")
        scale = float(np.exp(view.parameters["known_pair_scale"]))
        offset = float(view.parameters["known_pair_offset"])
        answer = pair_gradient(
            p, self._similar, scale, offset, estimator=self.estimator, coding=self.coding,
            rng=self._rng,
        )  # fmt: skip
        return TermGradient(
            self.weight * answer.loss,
            extra_logits=(self.weight * answer.logits).astype(p.dtype),
            parameters={
                "known_pair_scale": np.asarray(self.weight * scale * answer.scale),
                "known_pair_offset": np.asarray(self.weight * answer.offset),
            },
        )


class PairGradient(NamedTuple):
    """Mean loss of pairs, its gradient by the logits (2 m, l), by the scale and the offset."""

    loss: float
    logits: Floats
    scale: float
    offset: float


def pair_gradient(
    probabilities: Floats,
    similar: NDArray[np.bool_],
    scale: float,
    offset: float,
    *,
    estimator: str,
    coding: str,
    rng: np.random.Generator,
) -> PairGradient:
    """Gradient of the mean of -log p(y | h_i, h_j); `probabilities` (2 m, l), i's before j's."""
    p_i, p_j = np.split(probabilities.astype(np.float64), 2)
    signs = np.where(similar, 1.0, -1.0)
    if estimator == "exact":
        loss, by_scale, by_offset, change = _exact(p_i, p_j, signs, scale, offset, coding)
    else:
        codes = codes_for(probabilities.astype(np.float64), estimator, coding, rng)
        h_i, h_j = np.split(codes, 2)
        products = np.einsum("ij,ij->i", h_i, h_j)
        margins = signs * (scale * products + offset)
        loss = float(softplus(-margins).mean())
        slopes = -signs * sigmoid(-margins)  # of the loss by a h_i . h_j + o
        by_scale, by_offset = float((slopes * products).mean()), float(slopes.mean())
        if estimator == "distributional":
            change = _differences(h_i, h_j, products, signs, scale, offset, coding)
        else:
            step = code_step(coding) * scale * slopes[:, None]
            change = np.concatenate([step * h_j, step * h_i])
    p = np.concatenate([p_i, p_j])
    return PairGradient(loss, p * (1 - p) * change / len(p_i), by_scale, by_offset)


def _differences(
    h_i: Floats,
    h_j: Floats,
    products: Floats,
    signs: Floats,
    scale: float,
    offset: float,
    coding: str,
) -> Floats:
    """l(h_k = 1) - l(h_k = 0) for every bit of i, then of j, the others as they are."""
    low = -1.0 if coding == "signed" else 0.0
    without = products[:, None] - h_i * h_j

    def loss(product: Floats) -> Floats:
        return softplus(-signs[:, None] * (scale * product + offset))

    return np.concatenate([loss(without + h) - loss(without + low * h) for h in (h_j, h_i)])


def _exact(
    p_i: Floats, p_j: Floats, signs: Floats, scale: float, offset: float, coding: str
) -> tuple[float, float, float, Floats]:
    """Expected loss, its derivatives by scale and offset, and D, over all codes of both vectors."""
    m, n_bits = p_i.shape
    signed = coding == "signed"
    counts = np.arange(n_bits + 1.0)
    products = 2 * counts - n_bits if signed else counts
    margins = signs[:, None] * (scale * products + offset)
    losses = softplus(-margins)  # (m, l + 1), by count
    q = p_i * p_j + (1 - p_i) * (1 - p_j) if signed else p_i * p_j
    # ahead[k][:, c]: expected loss if the bits before k counted c.
    ahead = [losses]
    for k in reversed(range(n_bits)):
        after, chance = ahead[-1], q[:, k, None]
        ahead.append(chance * after[:, 1:] + (1 - chance) * after[:, :-1])
    ahead.reverse()
    by_q = np.empty_like(q)
    before = np.ones((m, 1))  # distribution of the count of the bits before k
    for k in range(n_bits):
        after, chance = ahead[k + 1], q[:, k, None]
        by_q[:, k] = (before * (after[:, 1:] - after[:, :-1])).sum(axis=1)
        grown = np.zeros((m, k + 2))
        grown[:, :-1] = (1 - chance) * before
        grown[:, 1:] += chance * before
        before = grown
    slopes = -signs[:, None] * sigmoid(-margins) * before
    inner_i, inner_j = (2 * p_j - 1, 2 * p_i - 1) if signed else (p_j, p_i)
    change = np.concatenate([by_q * inner_i, by_q * inner_j])
    loss = float((before * losses).sum(axis=1).mean())
    return loss, float((slopes @ products).mean()), float(slopes.sum(axis=1).mean()), change


class LabelTerm:
    """weight * mean softmax loss of labelled rows drawn in every step, by their hard signs."""

    def __init__(self, vectors: NDArray[Any], labels: Ids, *, n_bits: int, weight: float) -> None:
        self.rows = np.flatnonzero(labels != -1)
        self.vectors, self.labels, self.n_bits, self.weight = vectors, labels, n_bits, weight

    def start_parameters(self) -> Mapping[str, Floats]:
        """The logarithm of g."""
        return {"label_scale": np.asarray(np.log(FIRST_SCALE / np.sqrt(self.n_bits)))}

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """Labelled vectors, each at most once."""
        size = min(STEP_LABELS, len(self.rows))
        self._chosen = rng.choice(self.rows, size=size, replace=False)
        return self.vectors[self._chosen].astype(np.float32)

    def gradient(self, view: TermView) -> TermGradient:
        """Loss, and gradients by the logits of the labelled rows and by the scale."""
        logits, p = view.extra_logits, view.extra_probabilities
        if logits is None or p is None:
            raise InvalidInput("a LabelTerm needs the logits of the vectors that it drew")
        scale = float(np.exp(view.parameters["label_scale"]))
        signs = np.where(logits > 0, np.float32(1), np.float32(-1))
        loss, by_signs, by_scale = label_loss(signs, self.labels[self._chosen], scale)
        return TermGradient(
            self.weight * loss,
            extra_logits=(self.weight * 2 * p * (1 - p) * by_signs).astype(p.dtype),
            parameters={"label_scale": np.asarray(self.weight * scale * by_scale)},
        )


def label_loss(signs: Floats, labels: Ids, scale: float) -> tuple[float, Floats, float]:
    """Mean loss of rows that have a companion, its gradients by signs (m, l) and by the scale."""
    products = signs @ signs.T
    scores = scale * products
    np.fill_diagonal(scores, -np.inf)
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    totals = shares.sum(axis=1, keepdims=True)
    shares /= totals
    same = labels[:, None] == labels[None, :]
    np.fill_diagonal(same, False)
    counts = same.sum(axis=1)
    has = counts > 0
    n = max(1, int(has.sum()))
    np.fill_diagonal(scores, 0)
    logs = (scores - np.log(totals)) * same
    loss = -float((logs.sum(axis=1)[has] / counts[has]).sum()) / n
    slopes = shares - same / np.maximum(counts, 1)[:, None]
    slopes *= (has / n)[:, None]
    by_signs = scale * ((slopes + slopes.T) @ signs)
    return loss, by_signs, float((slopes * products).sum())
