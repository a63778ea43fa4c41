"""A decoder for counts, such as the words of documents; an example of how to write one's own.

Given the code h, each of the words of a document is drawn by itself from the shares
softmax(h U + b), so that a vector x of counts with the sum n has

    log p(x | h) = log n! - sum_j log x_j! + sum_j x_j log softmax(h U + b)_j.

That is p(x | h) given the length n of the document, which no bit of the code has to describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.generative import Floats
from sghash.models.sgh.training.start import Start
from sghash.validation import Vectors

#: Words that hardly occur in the sample start as if they were this share of all words, over d.
RARE = 0.01


@dataclass(frozen=True)
class Multinomial:
    """Counts whose shares are softmax(h @ `weights` + `bias`): weights (n_bits, d), bias (d,)."""

    weights: Floats
    bias: Floats

    def mean(self, codes: Floats) -> Floats:
        """Shares (n, d), which sum to one: times the length of a document, its expected counts."""
        return np.exp(self.log_shares(codes))

    def log_shares(self, codes: Floats) -> Floats:
        """Logarithms (n, d) of the shares."""
        scores = codes @ self.weights + self.bias
        scores = scores - scores.max(axis=1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def log_likelihood(self, vectors: Floats, codes: Floats) -> Floats:
        """Log p(x | h) of every row, (n,)."""
        from scipy.special import gammaln

        # In double precision: the logarithms of factorials are large and nearly cancel.
        counts = vectors.astype(np.float64)
        orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
        found: Floats = orders + (counts * self.log_shares(codes)).sum(axis=1)
        return found

    def code_gradient(self, vectors: Floats, codes: Floats) -> Floats:
        """Derivative of `log_likelihood` by every entry of h, (n, n_bits)."""
        return self.residual(vectors, codes) @ self.weights.T

    def residual(self, vectors: Floats, codes: Floats) -> Floats:
        """Counts less expected counts (n, d): the derivative by h @ weights + bias."""
        return vectors - vectors.sum(axis=1, keepdims=True) * self.mean(codes)


class MultinomialDecoder:
    """Learns a `Multinomial` of counts: numbers of at least 0, as they are."""

    standardize = False

    def refuse(self, vectors: Vectors) -> None:
        """Refuse negative numbers, which are no counts."""
        if vectors.size and vectors.min() < 0:
            raise InvalidInput(
                f"the multinomial decoder takes vectors of counts, numbers of at least 0, these "
                f"reach down to {vectors.min():g}: use another decoder"
            )

    def start_parameters(
        self, sample: Vectors, start: Start, rng: np.random.Generator
    ) -> Mapping[str, Floats]:
        """Logarithms of shares that are linear in the first codes: the tangent at the mean."""
        means = sample.mean(axis=0, dtype=np.float64)
        floor = means + RARE * (means.mean() or 1.0)
        # Codes 0/1 are half a bit above their origin on average, which the bias has to make up for.
        away = start.decoder_bias - means
        return {
            "decoder_weights": start.decoder_weights / floor,
            "decoder_bias": np.log(floor) + away / floor,
        }

    def at(self, parameters: Mapping[str, Floats]) -> Multinomial:
        """Return the decoder that these parameters describe."""
        return Multinomial(parameters["decoder_weights"], parameters["decoder_bias"])

    def parameter_gradients(
        self, parameters: Mapping[str, Floats], vectors: Vectors, codes: Floats
    ) -> Mapping[str, Floats]:
        """Gradients of the mean of -log p(x | h), by both names."""
        residual = self.at(parameters).residual(vectors, codes) / -len(vectors)
        return {"decoder_weights": codes.T @ residual, "decoder_bias": residual.sum(axis=0)}

    def in_units(
        self, parameters: Mapping[str, Floats], unit: float, shift: Vectors
    ) -> Mapping[str, Floats]:
        """Return the parameters as they are: counts have a unit of their own."""
        return parameters
