"""The steps of `DeepSGH`: the paper's objective by autograd, neighbours, pairs and labels.

    objective + pair_weight * (softmax loss of neighbours + of labels + Bernoulli loss of pairs)

The softmax loss compares hard signs s: -log softmax_j(g s_i . s_j) over the other rows of the step,
at the row's neighbour (or averaged over the rows of its label). Means of the bits in the place of
signs draw near while the signs do not; the gradient passes as through the mean (straight-through).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sghash.errors import Diverged, InvalidInput
from sghash.models.sgh.losses.supervision import KnownPairs
from sghash.models.sgh.training.start import NOISE_FLOOR, Start
from sghash.models.sgh.variants.deep_modules import SkipEncoder, check_module
from sghash.models.sgh.variants.deep_neuron import StochasticNeuron, code_loss
from sghash.models.sgh.variants.deep_pairs import Neighborhoods
from sghash.optional import require
from sghash.validation import Ids, Vectors

torch: Any = require("torch", extra="torch")
nn: Any = torch.nn

#: First factor of s_i . s_j, times the root of the number of bits.
FIRST_GAIN = 2.5


@dataclass
class Supervision:
    """What is known of pairs of rows; each may be missing."""

    neighbors: Neighborhoods | None = None
    pairs: KnownPairs | None = None
    labels: Ids | None = None


class Network(nn.Module):
    """Encoder, decoder, and the numbers of the objective and of the pair losses."""

    def __init__(self, encoder: Any, decoder: Any, n_bits: int, log_noise: float) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.log_noise = nn.Parameter(torch.tensor(float(log_noise)))
        self.prior_logits = nn.Parameter(torch.zeros(n_bits))
        gain = float(np.log(FIRST_GAIN / np.sqrt(n_bits)))
        self.log_gain = nn.Parameter(torch.tensor(gain))
        self.pair_log_gain = nn.Parameter(torch.tensor(gain))
        self.pair_offset = nn.Parameter(torch.tensor(0.0))


def make_network(
    encoder: Any, decoder: Any, start: Start, width: int, n_bits: int, hidden: tuple[int, ...]
) -> Network:
    """Copies of the given networks, or ready ones that start where linear SGH does."""
    if encoder is None:
        ready = SkipEncoder(width, n_bits, hidden)
        _set(ready.straight, start.encoder_weights, start.encoder_bias)
    else:
        check_module(encoder, "encoder")
    if decoder is None:
        back = nn.Linear(n_bits, width)
        _set(back, start.decoder_weights, start.decoder_bias)
    else:
        check_module(decoder, "decoder")
    return Network(
        ready if encoder is None else copy.deepcopy(encoder),
        back if decoder is None else copy.deepcopy(decoder),
        n_bits,
        start.log_noise,
    )


def _set(module: Any, weights: Vectors, bias: Vectors) -> None:
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.ascontiguousarray(weights.T)))
        module.bias.copy_(torch.from_numpy(np.asarray(bias, dtype=np.float32)))


class Training:
    """Runs the steps; `features` gives the networks' inputs (m, r) for row numbers (m,)."""

    def __init__(
        self,
        network: Network,
        features: Callable[[Ids], Vectors],
        n_rows: int,
        *,
        estimator: str,
        kl_weight: tuple[float, float],
        pair_weight: float,
        supervision: Supervision,
        batch_size: int,
        learning_rate: float,
        device: str,
        rng: np.random.Generator,
    ) -> None:
        self.network, self.features, self.n_rows = network.to(device), features, n_rows
        self.estimator, self.kl_weight, self.pair_weight = estimator, kl_weight, pair_weight
        self.supervision, self.batch_size = supervision, batch_size
        self.learning_rate, self.device, self.rng = learning_rate, device, rng
        self.generator = torch.Generator().manual_seed(int(rng.integers(1 << 62)))
        self._labelled = np.empty(0, dtype=np.int64)
        if supervision.labels is not None:
            self._labelled = np.flatnonzero(supervision.labels != -1)

    def run(self, n_steps: int, report: Callable[[int, dict[str, float]], None]) -> None:
        """Take all steps; report twenty times."""
        optimizer = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate)
        every = max(1, n_steps // 20)
        for step in range(n_steps):
            share = step / n_steps
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * 0.5 * (1 + np.cos(np.pi * share))
            objective, pair_loss = self._losses(share)
            loss = objective + self.pair_weight * pair_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % every == 0 or step + 1 == n_steps:
                values = {"objective": objective.item(), "pair_loss": pair_loss.item()}
                if not np.isfinite(list(values.values())).all():
                    raise Diverged(
                        f"training diverged after {step + 1} steps (learning rate "
                        f"{self.learning_rate:g}): use a smaller learning_rate"
                    )
                report(step + 1, values)
        self.network.eval()

    def _losses(self, share: float) -> tuple[Any, Any]:
        rows, parts = self._draw()
        # Batch normalisation cannot learn from one row.
        self.network.train(len(rows) > 1)
        x = torch.from_numpy(self.features(rows)).to(self.device)
        logits = self.network.encoder(x)
        if logits.ndim != 2 or logits.shape[0] != len(x) or not self._fits(logits):
            raise InvalidInput(
                f"the encoder gives an array of shape {tuple(logits.shape)} for {len(x)} vectors: "
                f"expected {(len(x), self.network.prior_logits.numel())}"
            )
        objective = self._objective(x, logits, share)
        pair_loss = torch.zeros((), device=self.device)
        if "near" in parts:
            pair_loss = pair_loss + self._neighbor_loss(logits[parts["near"]])
        if "labelled" in parts:
            labels = rows[parts["labelled"]]
            pair_loss = pair_loss + self._label_loss(logits[parts["labelled"]], labels)
        if "pairs" in parts:
            pair_loss = pair_loss + self._bernoulli_loss(logits[parts["pairs"]])
        return objective, pair_loss

    def _fits(self, logits: Any) -> bool:
        return bool(logits.shape[1] == self.network.prior_logits.numel())

    def _draw(self) -> tuple[Ids, dict[str, slice]]:
        """Rows of the step: half single ones, half pairs, and which are which."""
        known = self.supervision
        lists: list[Ids] = [self.rng.integers(self.n_rows, size=self.batch_size // 2 + 1)]
        parts: dict[str, slice] = {}

        def add(name: str, *more: Ids) -> None:
            first = sum(len(rows) for rows in lists)
            parts[name] = slice(first, first + sum(len(rows) for rows in more))
            lists.extend(more)

        if known.neighbors is not None:
            add("near", *known.neighbors.draw(self.batch_size // 2, self.rng))
        if len(self._labelled):
            size = min(self.batch_size, len(self._labelled))
            add("labelled", self.rng.choice(self._labelled, size=size, replace=False))
        if known.pairs is not None:
            chosen = self.rng.integers(len(known.pairs.first), size=self.batch_size // 2 + 1)
            self._similar = known.pairs.similar[chosen]
            add("pairs", known.pairs.first[chosen], known.pairs.second[chosen])
        return np.concatenate(lists), parts

    def _objective(self, x: Any, logits: Any, share: float) -> Any:
        """Mean nats of the vectors, with the divergence at its weight."""
        network, width = self.network, x.shape[1]
        noise = torch.exp(network.log_noise).clamp(min=NOISE_FLOOR)
        constant = 0.5 * width * torch.log(2 * np.pi * noise)

        def row_loss(codes: Any) -> Any:
            back = network.decoder(codes)
            if back.shape != x.shape:
                raise InvalidInput(
                    f"the decoder gives an array of shape {tuple(back.shape)} for {len(x)} codes: "
                    f"expected {tuple(x.shape)}"
                )
            return (x - back).square().sum(dim=1) / (2 * noise) + constant

        def spread_loss(variances: Any) -> Any:
            squares = network.decoder.weight.square().sum(dim=0)
            return variances @ squares / (2 * noise)

        loss = code_loss(
            logits, row_loss, estimator=self.estimator, generator=self.generator,
            spread_loss=spread_loss,
        )  # fmt: skip
        first, last = self.kl_weight
        weight = first + (last - first) * min(1.0, share / 0.75)
        prior = network.prior_logits
        kl = torch.sigmoid(logits) * (logits - prior)
        kl = kl - nn.functional.softplus(logits) + nn.functional.softplus(prior)
        return loss + weight * kl.sum(dim=1).mean()

    def _neighbor_loss(self, logits: Any) -> Any:
        """Each row's partner shall be the likeliest of all other rows."""
        signs = StochasticNeuron.apply(logits, 0.5)
        half = len(signs) // 2
        scores = torch.exp(self.network.log_gain) * signs @ signs.T
        scores = scores.masked_fill(
            torch.eye(len(signs), dtype=torch.bool, device=self.device), -1e9
        )
        partner = torch.arange(2 * half, device=self.device).roll(half)
        return nn.functional.cross_entropy(scores, partner)

    def _label_loss(self, logits: Any, rows: Ids) -> Any:
        """Minus the mean log share of the rows of the same label."""
        labels = torch.from_numpy(np.asarray(self.supervision.labels)[rows]).to(self.device)
        signs = StochasticNeuron.apply(logits, 0.5)
        own = torch.eye(len(signs), dtype=torch.bool, device=self.device)
        same = (labels[:, None] == labels[None, :]) & ~own
        scores = torch.exp(self.network.log_gain) * signs @ signs.T
        shares = nn.functional.log_softmax(scores.masked_fill(own, -1e9), dim=1)
        counts = same.sum(dim=1)
        means = torch.where(same, shares, 0.0).sum(dim=1) / counts.clamp(min=1)
        return -means.sum() / (counts > 0).sum().clamp(min=1)

    def _bernoulli_loss(self, logits: Any) -> Any:
        """The paper's pair model: y ~ Bernoulli(sigmoid(gain s_i . s_j + offset))."""
        first, second = StochasticNeuron.apply(logits, 0.5).chunk(2)
        products = (first * second).sum(dim=1)
        scores = torch.exp(self.network.pair_log_gain) * products + self.network.pair_offset
        similar = torch.from_numpy(self._similar).to(self.device, scores.dtype)
        return nn.functional.binary_cross_entropy_with_logits(scores, similar)
