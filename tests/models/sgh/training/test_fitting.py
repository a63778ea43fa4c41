"""`SGH.fit`: every way learns, reports, stops, repeats, and leaves nothing half done."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sghash.errors import Diverged
from sghash.models.base import Progress
from sghash.models.sgh import SGH
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.start import STARTS
from sghash.models.sgh.training.trainer import Patience


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


@pytest.mark.parametrize("gradient", ESTIMATORS)
@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_every_gradient_learns(gradient: str, coding: str, clusters: np.ndarray) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(gradient=gradient, coding=coding, recipe__init="random", n_steps=400).fit(
        clusters
    )
    assert model.reconstruction_error(clusters) < 0.5 * nothing


@pytest.mark.parametrize("init", STARTS)
def test_every_start_learns(init: str, clusters: np.ndarray) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(recipe__init=init, n_steps=300).fit(clusters)
    assert model.reconstruction_error(clusters) < 0.3 * nothing
    assert model.history_["reconstruction_error"][-1] < model.history_["reconstruction_error"][0]


@pytest.mark.parametrize("learning_rate", [3.0, 1e4, 1e30])
def test_divergence_is_said_and_leaves_nothing_half_fitted(
    learning_rate: float, clusters: np.ndarray
) -> None:
    model = quick(learning_rate=learning_rate)
    with pytest.raises(Diverged, match="use a smaller learning_rate"):
        model.fit(clusters)
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "encoder_weights_")
    fitted = quick().fit(clusters)
    before = fitted.fingerprint_
    fitted.set_params(learning_rate=learning_rate)
    with pytest.raises(Diverged):
        fitted.fit(clusters[:, :7])
    assert fitted.fingerprint_ == before and fitted.n_features_in_ == 20
    fitted.set_params(learning_rate=0.01)
    weights = fitted._session.trainer.parameters.flat.copy()
    with pytest.raises(ValueError, match="contain"):
        fitted.partial_fit(np.full((600, 20), np.nan))
    assert fitted.fingerprint_ == before
    np.testing.assert_array_equal(fitted._session.trainer.parameters.flat, weights)


def test_a_callback_that_stops_training_leaves_the_model_as_it_was(clusters: np.ndarray) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    model = quick(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(clusters)
    assert not hasattr(model, "encoder_weights_") and not hasattr(model, "n_features_in_")


def test_progress_and_history(clusters: np.ndarray) -> None:
    seen: list[Progress] = []
    model = quick(callback=seen.append, recipe__report_every=30).fit(clusters)
    assert [progress.step for progress in seen] == [30, 60, 90, 120]
    assert all(progress.total == 120 for progress in seen)
    assert set(seen[0].values) == {"description_length", "reconstruction_error", "bits_in_use"}
    assert model.history_["step"] == [30, 60, 90, 120]
    assert model.history_["reconstruction_error"][-1] == seen[-1].values["reconstruction_error"]
    assert 0 < model.history_["bits_in_use"][-1] <= 12
    lengths = quick(recipe__refit=False).fit(clusters)
    final = lengths.description_length(clusters).total.mean()
    assert lengths.history_["description_length"][-1] == pytest.approx(final, rel=0.05)


@pytest.mark.slow
def test_early_stopping(clusters: np.ndarray) -> None:
    model = quick(n_steps=5000, recipe__report_every=50, recipe__patience=3, kl_weight=0.1).fit(
        clusters
    )
    assert model.steps_done_ < 5000
    assert len(model.history_["step"]) == model.steps_done_ // 50
    whole = quick(n_steps=5000, kl_weight=0.1).fit(clusters)
    assert model.reconstruction_error(clusters) < 1.1 * whole.reconstruction_error(clusters)


def test_patience_waits_while_either_measure_falls() -> None:
    patience = Patience(2, 0.01, n_bits=10)
    answers = [
        patience.is_over({"reconstruction_error": error, "description_length": length})
        for error, length in [(5, 9), (5, 8), (5, 7), (4, 7), (4, 7), (3, 9), (3, 9), (2.99, 6.95)]
    ]
    assert answers == [False] * 7 + [True]


def test_budget_in_passes(clusters: np.ndarray) -> None:
    model = quick(n_steps=None, recipe__n_passes=2.5, batch_size=500).fit(clusters)
    assert model.steps_done_ == 15


def test_random_iterates_are_iterates(clusters: np.ndarray) -> None:
    options = {
        "recipe__optimizer": "sgd",
        "learning_rate": 0.05,
        "recipe__refit": False,
        "n_steps": 60,
    }
    last = quick(**options).fit(clusters)
    for iterate in ("theorem1", "theorem2"):
        model = quick(**options, recipe__iterate=iterate).fit(clusters)
        assert model.fingerprint_ != last.fingerprint_
        assert model.reconstruction_error(clusters) < float(clusters.var(axis=0).sum())


def test_fixed_noise_stays(clusters: np.ndarray) -> None:
    assert quick(recipe__noise=2.5).fit(clusters).noise_variance_ == pytest.approx(2.5, rel=1e-5)


def test_extra_terms_change_training(clusters: np.ndarray) -> None:
    plain = quick().fit(clusters)
    decayed = quick(recipe__terms={"weight_decay": 0.05}).fit(clusters)
    assert np.square(decayed.encoder_weights_).sum() < np.square(plain.encoder_weights_).sum()


REPEAT = """
import numpy as np
from sghash import SGH
X = np.random.default_rng(0).standard_normal((2000, 24)).astype(np.float32)
print(SGH(n_bits=16, n_steps=100, gradient={gradient!r}, random_state=3).fit(X).fingerprint_)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gradient", ["approximate", "exact"])
def test_same_seed_same_model_in_another_process(gradient: str) -> None:
    X = np.random.default_rng(0).standard_normal((2000, 24)).astype(np.float32)
    here = SGH(n_bits=16, n_steps=100, gradient=gradient, random_state=3).fit(X).fingerprint_
    again = SGH(n_bits=16, n_steps=100, gradient=gradient, random_state=3).fit(X).fingerprint_
    other = SGH(n_bits=16, n_steps=100, gradient=gradient, random_state=4).fit(X).fingerprint_
    script = REPEAT.format(gradient=gradient)
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert here == again == there != other
