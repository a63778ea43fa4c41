"""The options of `SGH`: what is legal, what would have no effect, what presets stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models.sgh import SGH
from sghash.models.sgh.options import NEEDS, settings_of
from sghash.models.sgh.recipe import AUTHORS_SCRIPT, PAPER
from sghash.models.sgh.training.fitting import ranked_rows


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_bits": 0}, "n_bits must lie between"),
        ({"gradient": "reinforce"}, "gradient must be one of"),
        ({"coding": "ternary"}, "coding must be one of"),
        ({"metric": "l1"}, "metric must be one of"),
        ({"recipe__init": "zeros"}, "init must be one of"),
        ({"recipe__optimizer": "lbfgs"}, "optimizer must be one of"),
        ({"recipe__schedule": "linear"}, "schedule must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be finite and above 0"),
        ({"learning_rate": "fast"}, "learning_rate must be a number"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"n_steps": 1.5}, "n_steps must be a whole number"),
        ({"kl_weight": -1.0}, "kl_weight must not be negative"),
        ({"kl_weight": (1, 0, 1)}, "kl_weight must be a number or"),
        ({"recipe__noise": "some"}, "noise must be a number"),
        (
            {"recipe__patience": 3, "recipe__validation_fraction": 1.0},
            "validation_fraction must lie between",
        ),
        ({"recipe__terms": {"surprise": 1.0}}, "a name in terms must be one of"),
        ({"max_rows": 0}, "max_rows must be at least 1, or None"),
        ({"neighbors": 2.5}, "neighbors must be a whole number"),
        ({"recipe": "paper"}, "recipe must be None or a Recipe"),
        ({"recipe__decoder_scale": "std"}, "decoder_scale must be None or 'variance'"),
        ({"recipe__standardize": "no"}, "standardize must be True or False, got 'no'"),
        ({"recipe__refit": None}, "refit must be True or False, got None"),
        ({"supervised": "yes"}, "supervised must be True or False, got 'yes'"),
        ({"callback": 3}, 'callback must be a function of one argument, "bar" or None, got 3'),
    ],
)
def test_options_that_cannot_be_used(
    options: dict[str, Any], sentence: str, clusters: np.ndarray
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        quick(**options).fit(clusters)


#: (options, the option that would have no effect), one for each way to overrule one.
CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"goal": "hamming", "neighbors": 5}, "goal"),
    ({"goal": "reconstruction", "neighbors": 5}, "goal"),
    ({"kl_weight": 0.5, "hidden": 4, "neighbors": 5}, "kl_weight"),
    ({"gradient": "exact", "hidden": 4, "neighbors": 5}, "gradient"),
    ({"max_rows": 1000, "goal": "reconstruction"}, "max_rows"),
    ({"recipe__pair_loss": "softmax", "goal": "reconstruction"}, "pair_loss"),
    ({"recipe__pair_weight": 3.0, "goal": "reconstruction"}, "pair_weight"),
    ({"recipe__n_passes": 2, "n_steps": 10}, "n_passes"),
    ({"recipe__sampling": "uniform"}, "sampling"),
    ({"recipe__sampling": "passes", "neighbors": 3}, "sampling"),
    ({"recipe__decay": 0.5}, "decay"),
    ({"recipe__decay": 0.5, "goal": "reconstruction", "recipe__schedule": "constant"}, "decay"),
    ({"recipe__decay": 0.5, "goal": "reconstruction", "recipe__optimizer": "sgd"}, "decay"),
    ({"recipe__decay_every": 9, "recipe__schedule": "cosine"}, "decay_every"),
    ({"recipe__validation_fraction": 0.1}, "validation_fraction"),
    ({"recipe__tol": 0.0}, "tol"),
    ({"recipe__iterate": "theorem2", "recipe__patience": 2}, "iterate"),
    ({"recipe__smoothness": 1.0}, "smoothness"),
    ({"recipe__smoothness": 1.0, "recipe__iterate": "theorem2"}, "smoothness"),
    ({"recipe__decoder_scale": "variance"}, "decoder_scale"),
    ({"recipe__standardize": False}, "standardize"),
    ({"recipe__standardize": False, "neighbors": 3}, "standardize"),
]
ONLINE_CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"recipe__n_passes": 2, "n_steps": None}, "n_passes"),
    ({"recipe__patience": 2}, "patience"),
    ({"recipe__iterate": "theorem1"}, "iterate"),
    ({"recipe__decay": 0.5, "recipe__schedule": "cosine"}, "decay"),
]


@pytest.mark.parametrize(("options", "overruled"), CONFLICTS)
def test_an_option_that_another_overrules_is_refused(
    options: dict[str, Any], overruled: str, clusters: np.ndarray
) -> None:
    with pytest.raises(InvalidInput, match=f"^{overruled}=.* would have no effect, since .+: .+"):
        quick(**options).fit(clusters)


@pytest.mark.parametrize(("options", "overruled"), ONLINE_CONFLICTS)
def test_an_option_that_pieces_overrule_is_refused(
    options: dict[str, Any], overruled: str, clusters: np.ndarray
) -> None:
    with pytest.raises(InvalidInput, match=f"^{overruled}=.* would have no effect, since .+: .+"):
        quick(**options).partial_fit(clusters)


def test_every_way_to_overrule_an_option_is_listed() -> None:
    listed = [overruled for _, overruled in (*CONFLICTS, *ONLINE_CONFLICTS)]
    assert {need.option for need in NEEDS} == set(listed)


@pytest.mark.parametrize(
    "options",
    [
        {"recipe__decay": 0.3, "recipe__decay_every": 5, "recipe__schedule": "step"},
        {"recipe__decay": 0.3, "goal": "reconstruction"},
        {"recipe__sampling": "uniform", "goal": "reconstruction"},
        {"recipe__n_passes": 2, "n_steps": None},
        {"recipe__patience": 1, "recipe__tol": 0.9, "recipe__validation_fraction": 0.3},
        {"recipe__iterate": "theorem1", "recipe__smoothness": 2.0, "learning_rate": 0.001},
        {"recipe__pair_weight": 9.0},
        {"recipe__pair_loss": "bernoulli", "neighbors": 3},
        {"recipe__standardize": False, "goal": "reconstruction"},
        {"recipe__decoder_scale": "variance", "goal": "reconstruction"},
        {"max_rows": 600},
        {"hidden": 3},
        {"hidden": 3, "kl_weight": 0.5, "neighbors": 5, "recipe__refit": False},
    ],
)
def test_an_option_that_is_taken_has_an_effect(
    options: dict[str, Any], clusters: np.ndarray
) -> None:
    goal = options.get("goal")
    plain = quick(goal=goal, n_steps=30).fit(clusters)
    assert quick(**{"n_steps": 30, **options}).fit(clusters).fingerprint_ != plain.fingerprint_


def test_pairs_and_labels_use_their_weight(clusters: np.ndarray) -> None:
    options = {"goal": "reconstruction", "n_steps": 20}
    pairs = (np.arange(50), np.arange(50, 100), np.arange(50) % 2)
    labels = np.arange(3000) % 3
    for more, known in (({}, {"pairs": pairs}), ({"supervised": True}, {"y": labels})):
        models = [quick(**options, **more, recipe__pair_weight=w) for w in (1.0, 50.0)]
        first, second = (model.fit(clusters, **known).fingerprint_ for model in models)
        assert first != second


def test_max_rows_bounds_what_is_looked_at(clusters: np.ndarray) -> None:
    """Of wide vectors, never more than 256 MiB, unless all are asked for."""
    settings = [settings_of(quick(max_rows=n)) for n in (None, 700, 10**9)]
    assert [ranked_rows(s, 5000, 20) for s in settings] == [5000, 700, 5000]
    assert [ranked_rows(s, 10**8, 20) for s in settings] == [10**8, 700, (1 << 28) // 80]
    assert quick().max_rows == 100_000
    all_rows = quick(max_rows=None, n_steps=20).fit(clusters)
    assert all_rows.fingerprint_ == quick(max_rows=3000, n_steps=20).fit(clusters).fingerprint_


def test_the_length_may_come_first() -> None:
    assert (SGH(48).n_bits, SGH.paper(24).n_bits, SGH.authors_script(24).n_bits) == (48, 24, 24)
    with pytest.raises(TypeError, match="positional"):
        SGH(48, "ip")  # type: ignore[misc]
    assert len(SGH._get_param_names()) == 16


@pytest.mark.parametrize("seed", [-1, "seed", 1.5])
def test_a_seed_that_is_none_is_refused(seed: Any, clusters: np.ndarray) -> None:
    for learn in (SGH.fit, SGH.partial_fit):
        with pytest.raises(InvalidInput, match="random_state must be"):
            learn(quick(random_state=seed), clusters)


def test_presets_are_what_they_say(clusters: np.ndarray) -> None:
    paper = SGH.paper(8, random_state=0, n_steps=300)
    assert (paper.coding, paper.gradient, paper.goal) == ("binary", "approximate", "reconstruction")
    assert (paper.kl_weight, paper.batch_size, paper.learning_rate) == (1.0, 500, 0.01)
    assert paper.recipe == PAPER
    assert PAPER.refit is False and PAPER.sampling == "uniform" and PAPER.init == "random"
    script = SGH.authors_script(8, random_state=0, n_steps=300)
    assert (script.coding, script.gradient) == ("binary", "straight-through")
    assert script.recipe == AUTHORS_SCRIPT
    assert AUTHORS_SCRIPT.schedule == "constant" and AUTHORS_SCRIPT.noise == 1.0
    assert AUTHORS_SCRIPT.terms == {"confidence": 1e-3, "weight_decay": 2e-6}
    total_variance = float(clusters.var(axis=0).sum())
    assert paper.fit(clusters).reconstruction_error(clusters) < 0.7 * total_variance
    unit = clusters / 20
    assert script.fit(unit).reconstruction_error(unit) < 0.7 * total_variance / 400


def test_presets_take_what_leaves_them_what_they_are(clusters: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="a preset takes no coding, recipe__init: it"):
        SGH.paper(coding="signed", recipe__init="itq")
    free = SGH.paper(8, recipe__n_passes=2, recipe__report_every=3, random_state=0)
    assert free.n_steps is None and free.recipe == PAPER.set_params(n_passes=2, report_every=3)
    assert free.fit(clusters).steps_done_ == 12
    assert SGH.paper(8, n_steps=7).n_steps == 7 and SGH.paper(8).recipe is not free.recipe
    for ours in ("standardize", "encoder has a bias", "data's mean", "halved"):
        assert ours in SGH.paper.__doc__
