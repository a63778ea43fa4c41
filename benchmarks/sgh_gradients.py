"""The four gradients of SGH against their definitions; bias and variance of each.

    python benchmarks/sgh_gradients.py [--draws 20000]

On a small model, where all codes can be listed. Every figure stands beside its target.
"""

from __future__ import annotations

import argparse
import copy
from itertools import product

import numpy as np

from sghash.models.sgh import SGH, encoder_gradient, objective
from sghash.models.sgh.paper.encoder import draw_bits, sigmoid
from sghash.models.sgh.paper.generative import code_values
from sghash.models.sgh.paper.gradients import ESTIMATORS, encoder_logits, gaussian_decoder
from sghash.models.sgh.training.batches import Batch
from sghash.models.sgh.training.parameters import Parameters
from sghash.models.sgh.training.step import GaussianStep

WIDTH, N_BITS, N_ROWS = 5, 4, 50


def small_model(coding: str, rng: np.random.Generator) -> SGH:
    model = SGH(n_bits=N_BITS, coding=coding)
    model.n_features_in_ = WIDTH
    model.encoder_weights_ = rng.standard_normal((WIDTH, N_BITS))
    model.encoder_bias_ = rng.standard_normal(N_BITS)
    model.decoder_weights_ = rng.standard_normal((N_BITS, WIDTH))
    model.decoder_bias_ = rng.standard_normal(WIDTH)
    model.noise_variance_, model.prior_logits_ = 0.7, rng.standard_normal(N_BITS)
    return model


def by_two_passes_per_bit(model: SGH, X: np.ndarray, seed: int) -> np.ndarray:
    """The paper's lemma word for word, 2 n_bits forward passes."""
    decoder, logits = gaussian_decoder(model), encoder_logits(model, X)
    p = sigmoid(logits)
    bits = draw_bits(p, np.random.default_rng(seed))
    slopes = logits - model.prior_logits_
    for k in range(N_BITS):
        for value, sign in ((1, 1), (0, -1)):
            bits_k = bits.copy()
            bits_k[:, k] = value
            codes = code_values(bits_k, model.coding, np.float64)
            slopes[:, k] -= sign * decoder.log_likelihood(X, codes)
    return X.T @ (p * (1 - p) * slopes) / len(X)


def by_enumeration(model: SGH, X: np.ndarray) -> np.ndarray:
    """Mean of the lemma's gradient over all codes of every vector."""
    decoder, logits = gaussian_decoder(model), encoder_logits(model, X)
    p = sigmoid(logits)
    slopes = np.zeros_like(p)
    for bits in product((0, 1), repeat=N_BITS):
        chances = np.where(bits, p, 1 - p).prod(axis=1)
        for k in range(N_BITS):
            losses = []
            for value in (0, 1):
                changed = np.array(bits)
                changed[k] = value
                codes = code_values(np.tile(changed, (len(X), 1)), model.coding, np.float64)
                losses.append(-decoder.log_likelihood(X, codes))
            slopes[:, k] += chances * (losses[1] - losses[0])
    slopes += logits - model.prior_logits_
    return X.T @ (p * (1 - p) * slopes) / len(X)


def slope_of_objective(model: SGH, X: np.ndarray, name: str) -> np.ndarray:
    """Finite differences of the enumerated objective by the attribute `name`."""
    slopes = np.empty(np.shape(getattr(model, name)))
    for index in np.ndindex(slopes.shape):
        ends = []
        for change in (1e-5, -1e-5):
            moved = copy.deepcopy(model)
            values = np.array(getattr(moved, name), dtype=np.float64)
            values[index] += change
            setattr(moved, name, values)
            ends.append(objective(moved, X))
        slopes[index] = (ends[0] - ends[1]) / 2e-5
    return slopes


def training_step(model: SGH, X: np.ndarray) -> dict[str, np.ndarray]:
    """The exact gradient as training computes it, in float32, by attribute."""
    parameters = Parameters(
        {
            "encoder_weights": model.encoder_weights_,
            "encoder_bias": model.encoder_bias_,
            "decoder_weights": model.decoder_weights_,
            "decoder_bias": model.decoder_bias_,
            "log_noise": np.log(model.noise_variance_),
            "prior_logits": model.prior_logits_,
        }
    )
    out = parameters.zeros()
    step = GaussianStep(estimator="exact", coding=model.coding)
    batch = Batch(X, np.arange(len(X)))
    step.gradient(parameters, batch, 1.0, np.random.default_rng(0), out)
    found = {f"{name}_": np.asarray(value) for name, value in out.items()}
    found["noise_variance_"] = found.pop("log_noise_") / model.noise_variance_
    return found


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def say(what: str, figure: float, target: str, good: bool) -> None:
    print(f"  {what:<62} {figure:>10.2e}   target {target:<14} {'met' if good else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20_000)
    n_draws = parser.parse_args().draws
    for coding in ("signed", "binary"):
        rng = np.random.default_rng(7)
        model = small_model(coding, rng)
        X = rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32)
        wide = X.astype(np.float64)
        print(f"{coding} coding, d = {WIDTH}, {N_BITS} bits, {N_ROWS} vectors")
        exact = encoder_gradient(model, X, estimator="exact")
        found = encoder_gradient(model, X, estimator="distributional", random_state=1)
        gap = distance(found, by_two_passes_per_bit(model, wide, 1))
        say("distributional against 2l forward passes (relative)", gap, "<= 1e-5", gap <= 1e-5)
        general = encoder_gradient(
            model, X, estimator="distributional", random_state=1, closed_form=False
        )
        gap = distance(general, found)
        say("general path (l extra passes) against closed form", gap, "<= 1e-5", gap <= 1e-5)
        gap = distance(exact, by_enumeration(model, wide))
        say("exact against enumeration of all codes", gap, "<= 1e-5", gap <= 1e-5)
        gap = distance(exact, slope_of_objective(model, X, "encoder_weights_"))
        say("exact against finite differences of the objective", gap, "<= 1e-5", gap <= 1e-5)
        for name, value in training_step(model, X).items():
            gap = distance(value, slope_of_objective(model, X, name))
            say(f"a training step (float32) by {name}", gap, "<= 1e-5", gap <= 1e-5)
        print(f"  {'estimator':<18} {'bias':>10} {'deviation':>10} {'largest z':>10}   of", n_draws)
        for estimator in ESTIMATORS:
            n = n_draws if estimator in ("approximate", "distributional") else 1
            seeds = np.random.default_rng(2)
            draws = np.array(
                [
                    encoder_gradient(model, X, estimator=estimator, random_state=seeds)
                    for _ in range(n)
                ]
            )
            bias = distance(draws.mean(axis=0), exact)
            spread = float(np.sqrt(draws.var(axis=0).sum()) / np.linalg.norm(exact))
            line = f"  {estimator:<18} {bias:>10.4f} {spread:>10.4f}"
            if n > 1:
                errors = draws.std(axis=0, ddof=1) / np.sqrt(n)
                score = float(np.abs((draws.mean(axis=0) - exact) / errors).max())
                line += f" {score:>10.2f}"
                if estimator == "distributional":
                    line += f"   target < 4 (unbiased)  {'met' if score < 4 else 'MISSED'}"
            print(line)
    print("bias and deviation are relative to the length of the exact gradient, per batch")


if __name__ == "__main__":
    main()
