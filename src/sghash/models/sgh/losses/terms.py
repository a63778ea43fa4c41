"""Extra loss terms beside the paper's objective: what they see and what they answer.

A term is added to the mean objective of the batch. It looks at the logits of the batch (and of
further vectors it asked for) and returns its loss with the gradient by those logits; gradients by
named parameters, its own among them, may come along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from sghash.errors import InvalidInput
from sghash.models.sgh.paper.encoder import sigmoid, softplus
from sghash.models.sgh.paper.generative import Floats
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.encoder import (
    Space,
    backward,
    forward,
    gradient_buffers,
    has_hidden,
    n_hidden_of,
)
from sghash.models.sgh.training.optimizer import Parameters
from sghash.models.sgh.training.scaling import Units
from sghash.validation import Ids, Vectors, check_choice, check_number


class TermView(NamedTuple):
    """What a term sees of one step: vectors in the trainer's units, logits (m, n_bits), ..."""

    rows: Ids
    vectors: Vectors
    logits: Floats
    probabilities: Floats
    extra_logits: Floats | None
    extra_probabilities: Floats | None
    parameters: Mapping[str, Vectors]


@dataclass
class TermGradient:
    """`loss`, and its gradients by the logits, the extra logits, and named parameters."""

    loss: float
    logits: Floats | None = None
    extra_logits: Floats | None = None
    parameters: dict[str, Floats] = field(default_factory=dict)


class Term(Protocol):
    """An extra loss term."""

    def start_parameters(self) -> Mapping[str, Floats]:
        """Starting values of parameters that this term learns, by names of its own."""
        ...

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """More vectors (e, d), in the caller's units, to be encoded in this step; or None."""
        ...

    def gradient(self, view: TermView) -> TermGradient:
        """Loss and gradients at this step."""
        ...


class Terms:
    """All extra terms of a training."""

    def __init__(self, terms: Sequence[Term] = (), scaling: Units | None = None) -> None:
        self.terms, self.scaling = tuple(terms), scaling
        # Memory for the extra vectors of each term, and for gradients by them.
        self._learned = tuple(self.start_parameters())
        self._spaces: dict[int, Space] = {}
        self._buffers: dict[str, Vectors] = {}

    def start_parameters(self) -> dict[str, Floats]:
        """Starting values of all parameters that the terms learn."""
        return {name: v for term in self.terms for name, v in term.start_parameters().items()}

    def add(
        self,
        parameters: Parameters,
        batch: Batch,
        logits: Vectors,
        probabilities: Vectors,
        slopes: Vectors,
        rng: np.random.Generator,
        out: Parameters,
    ) -> float:
        """Add the gradients of all terms to `slopes` and to `out`; return their loss.

        `logits`, `probabilities` and `slopes` (m, n_bits), the gradient by the logits, are those of
        the batch: they go back through the encoder once for all terms, which is the caller's
        part. What extra vectors say of the encoder, the biases and named parameters is in `out`.
        """
        loss = 0.0
        # Before all terms: two of them may learn the same parameter.
        for name in self._learned:
            out[name][...] = 0
        for number, term in enumerate(self.terms):
            more = term.draw(rng)
            if more is not None and self.scaling is not None:
                more = self.scaling.apply(more)
            further = None
            if more is not None:
                space = self._space(number, more, parameters)
                further = forward(parameters, more, space) + parameters["encoder_bias"]
            view = TermView(
                batch.rows,
                batch.vectors,
                logits,
                probabilities,
                further,
                None if further is None else sigmoid(further),
                parameters,
            )
            answer = term.gradient(view)
            loss += answer.loss
            for name, value in answer.parameters.items():
                out[name][...] += value
            if answer.logits is not None:
                slopes += answer.logits
                out["encoder_bias"][...] += answer.logits.sum(axis=0)
            if more is not None and answer.extra_logits is not None:
                backward(parameters, more, answer.extra_logits, space, self._buffers)
                for name, value in self._buffers.items():
                    out[name][...] += value
                out["encoder_bias"][...] += answer.extra_logits.sum(axis=0)
        return loss

    def _space(self, number: int, vectors: Vectors, parameters: Parameters) -> Space:
        """Memory for the extra vectors of one term."""
        space = self._spaces.get(number)
        if space is None or len(space.logits) != len(vectors):
            n_bits = parameters["encoder_bias"].size
            space = Space(len(vectors), n_bits, n_hidden_of(parameters))
            self._spaces[number], self._buffers = space, gradient_buffers(parameters)
        return space


class _PlainTerm:
    """Abstract: a term without parameters of its own and without extra vectors."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def start_parameters(self) -> Mapping[str, Floats]:
        """No parameters."""
        return {}

    def draw(self, rng: np.random.Generator) -> Vectors | None:
        """No extra vectors."""
        return None


class Confidence(_PlainTerm):
    """weight * mean of -log q(h° | x) at the likelier code h°: pushes probabilities to 0 and 1.

    The authors' released script has this in the place of the paper's divergence, whose entropy
    part has the opposite sign. As there, the gradient also passes through h° (straight-through).
    """

    def gradient(self, view: TermView) -> TermGradient:
        """Loss and gradient by the logits."""
        p, z = view.probabilities, view.logits
        likelier = (p >= 0.5).astype(p.dtype)
        scale = self.weight / len(p)
        loss = float((softplus(z) - likelier * z).sum(dtype=np.float64)) * scale
        return TermGradient(loss, logits=scale * ((p - likelier) - z * p * (1 - p)))


class Entropy(_PlainTerm):
    """weight * mean of the entropy of q(h | x), in nats.

    The divergence of the paper holds it with the opposite sign: weight 1 takes it out of there and
    leaves the prior, where `kl_weight=0` takes out both.
    """

    def gradient(self, view: TermView) -> TermGradient:
        """Loss and gradient by the logits."""
        p, z = view.probabilities, view.logits
        scale = self.weight / len(p)
        loss = float((softplus(z) - p * z).sum(dtype=np.float64)) * scale
        return TermGradient(loss, logits=-scale * z * p * (1 - p))


class WeightDecay(_PlainTerm):
    """weight / 2 * (|W|² + |U|²), and |V|² + |O|² of a hidden layer, in the trainer's units."""

    names = ("encoder_weights", "decoder_weights")
    hidden_names = ("hidden_weights", "hidden_output")

    def gradient(self, view: TermView) -> TermGradient:
        """Loss and gradients by these matrices."""
        names = (*self.names, *(self.hidden_names if has_hidden(view.parameters) else ()))
        chosen = {name: view.parameters[name] for name in names}
        loss = 0.5 * self.weight * sum(float(np.square(v).sum()) for v in chosen.values())
        return TermGradient(
            loss, parameters={name: self.weight * value for name, value in chosen.items()}
        )


#: Terms that an option can name, each with its weight.
TERMS: dict[str, Callable[[float], Term]] = {
    "confidence": Confidence,
    "entropy": Entropy,
    "weight_decay": WeightDecay,
}


def make_terms(option: Mapping[str, float] | Sequence[Term]) -> list[Term]:
    """Return extra loss terms: as given, or by name and weight from `TERMS`."""
    if not isinstance(option, Mapping):
        if not isinstance(option, Sequence) or not all(hasattr(t, "gradient") for t in option):
            raise InvalidInput(
                f"terms must map names to weights, or be a sequence of terms, got {option!r}"
            )
        return list(option)
    for name, weight in option.items():
        check_choice(name, tuple(TERMS), name="a name in terms")
        check_number(weight, name=f"the weight of {name} in terms")
    return [TERMS[name](weight) for name, weight in option.items()]
