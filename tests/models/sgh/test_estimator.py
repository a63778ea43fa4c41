"""`SGH` as its users meet it: input, refusals, presets, online learning, files, repeatability."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

import sghash
from sghash.errors import BadFile, Diverged, InvalidInput
from sghash.models.base import Progress
from sghash.models.sgh import SGH
from sghash.models.sgh.paper.gradients import ESTIMATORS
from sghash.models.sgh.training.start import STARTS
from sghash.models.sgh.training.trainer import Patience


def quick(**options: Any) -> SGH:
    return SGH(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_scikit_learns_checks(coding: str) -> None:
    check_estimator(SGH(n_bits=8, n_steps=40, coding=coding), on_skip=None)


@pytest.mark.slow
def test_scikit_learns_checks_with_default_options() -> None:
    check_estimator(SGH(), on_skip=None)


@pytest.mark.parametrize("gradient", ESTIMATORS)
@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_every_gradient_learns(gradient: str, coding: str, clusters: np.ndarray) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(gradient=gradient, coding=coding, init="random", n_steps=400).fit(clusters)
    assert model.reconstruction_error(clusters) < 0.5 * nothing


@pytest.mark.parametrize("init", STARTS)
def test_every_start_learns(init: str, clusters: np.ndarray) -> None:
    nothing = float(clusters.var(axis=0).sum())
    model = quick(init=init, n_steps=300).fit(clusters)
    assert model.reconstruction_error(clusters) < 0.3 * nothing
    assert model.history_["reconstruction_error"][-1] < model.history_["reconstruction_error"][0]


def test_attributes_have_the_stated_shapes_and_units(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    assert model.encoder_weights_.shape == (20, 12) and model.encoder_bias_.shape == (12,)
    assert model.decoder_weights_.shape == (12, 20) and model.decoder_bias_.shape == (20,)
    assert model.prior_logits_.shape == (12,)
    bits = clusters @ model.encoder_weights_ + model.encoder_bias_ > 0
    np.testing.assert_array_equal(np.packbits(bits, axis=1), model.encode(clusters))
    np.testing.assert_array_equal(model.transform(clusters), bits)
    back = (2.0 * bits - 1) @ model.decoder_weights_ + model.decoder_bias_
    np.testing.assert_allclose(model.inverse_transform(bits), back, rtol=1e-5, atol=1e-4)
    error = np.square(clusters - back).sum(axis=1).mean()
    assert model.reconstruction_error(clusters) == pytest.approx(error, rel=1e-4)
    assert error / 20 < model.noise_variance_ < clusters.var(axis=0).mean()
    assert list(model.get_feature_names_out()[:2]) == ["bit0", "bit1"]


def test_codes_do_not_depend_on_the_units(clusters: np.ndarray) -> None:
    plain, scaled = quick().fit(clusters), quick().fit(clusters * 64)
    np.testing.assert_array_equal(plain.encode(clusters), scaled.encode(clusters * 64))
    np.testing.assert_allclose(scaled.decoder_weights_, plain.decoder_weights_ * 64, rtol=1e-5)
    shifted = quick().fit(clusters - 1000)
    nothing = float(clusters.var(axis=0).sum())
    assert shifted.reconstruction_error(clusters - 1000) < 0.3 * nothing


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i1", "u2", "i4", "i8", "?"])
def test_number_types(dtype: str, clusters: np.ndarray) -> None:
    vectors = np.clip(clusters * 4, 0, 120).astype(dtype)
    model = quick().fit(vectors)
    reference = quick().fit(vectors.astype(np.float32))
    assert model.fingerprint_ == reference.fingerprint_
    codes = model.encode(vectors)
    np.testing.assert_array_equal(codes, model.encode(vectors.astype(np.float32)))


def test_frames_and_strides(clusters: np.ndarray, tmp_path: Path) -> None:
    expected = quick().fit(clusters)
    codes = expected.encode(clusters)
    names = [f"c{j}" for j in range(20)]
    wide = np.zeros((3000, 40), dtype=np.float32)
    wide[:, ::2] = clusters
    np.save(tmp_path / "x.npy", clusters)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    forms = {
        "pandas": pd.DataFrame(clusters, columns=names),
        "polars": pl.DataFrame(clusters, schema=names),
        "strided": wide[:, ::2],
        "fortran": np.asfortranarray(clusters),
        "list": clusters.tolist(),
    }
    for name, form in forms.items():
        model = quick().fit(form)
        assert model.fingerprint_ == expected.fingerprint_, name
        np.testing.assert_array_equal(model.encode(form), codes, err_msg=name)
    assert list(quick().fit(forms["polars"]).feature_names_in_) == names
    from_map = quick().fit(mapped)
    np.testing.assert_array_equal(expected.encode(mapped), codes)
    assert from_map.reconstruction_error(clusters) < 1.3 * expected.reconstruction_error(clusters)


class Source:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop]


def test_sources_beyond_memory(clusters: np.ndarray) -> None:
    source = Source(clusters)
    model = quick().fit(source)
    np.testing.assert_array_equal(model.encode(source), model.encode(clusters))
    np.testing.assert_array_equal(model.encode(source, sweeps=2), model.encode(clusters, sweeps=2))
    assert model.reconstruction_error(clusters) < 1.3 * quick().fit(clusters).reconstruction_error(
        clusters
    )
    with pytest.raises(InvalidInput, match="the vectors have 19 columns"):
        model.encode(Source(clusters[:, :19]))


@pytest.mark.parametrize("sweeps", [0, 2])
def test_many_rows_get_the_codes_of_few(sweeps: int, clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    many = np.tile(clusters, (12, 1))
    few = np.concatenate(
        [model.encode(clusters[i : i + 500], sweeps=sweeps) for i in range(0, 3000, 500)]
    )
    for form in (many, Source(many)):
        codes = model.encode(form, sweeps=sweeps)
        # Products of other shapes may round otherwise: next to never does that turn a bit.
        assert (codes.reshape(12, 3000, 2) == few).all(axis=2).mean() > 0.999
    for n in (1, 7):  # so few take a way of their own
        one_by_one = [model.encode(clusters[i : i + n], sweeps=sweeps) for i in range(0, 300, n)]
        assert (np.concatenate(one_by_one)[:300] == few[:300]).all(axis=1).mean() > 0.99
    spoilt = many.copy()
    spoilt[-1, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.encode(spoilt, sweeps=sweeps)


@pytest.mark.parametrize(("n", "width", "n_bits"), [(1, 5, 8), (3, 5, 8), (40, 1, 9), (60, 3, 40)])
@pytest.mark.parametrize("init", STARTS)
def test_shapes_at_the_border(
    n: int, width: int, n_bits: int, init: str, rng: np.random.Generator
) -> None:
    vectors = rng.standard_normal((n, width)).astype(np.float32)
    model = quick(n_bits=n_bits, init=init).fit(vectors)
    assert model.encode(vectors).shape == (n, (n_bits + 7) // 8)
    assert np.isfinite(model.description_length(vectors).total).all()
    assert np.isfinite(model.decode(model.encode(vectors))).all()


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("value", [0.0, 7.0, 1e8])
def test_constant_columns_and_constant_data(init: str, value: float, clusters: np.ndarray) -> None:
    constant = np.full((50, 4), value, dtype=np.float32)
    assert np.isfinite(quick(init=init).fit(constant).decode(np.zeros((1, 2), np.uint8))).all()
    vectors = clusters.copy()
    vectors[:, 3] = value
    model = quick(init=init).fit(vectors)
    np.testing.assert_array_equal(model.encoder_weights_[3], 0)
    bits = model.transform(vectors).mean(axis=0)
    assert ((bits > 0.01) & (bits < 0.99)).sum() >= 6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float, clusters: np.ndarray) -> None:
    spoilt = clusters.copy()
    spoilt[1234, 5] = bad
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        quick().fit(spoilt)
    with pytest.raises(ValueError, match="row 1234 of the vectors contains NaN"):
        quick().fit(Source(spoilt))
    model = quick().fit(clusters)
    for sweeps in (0, 2):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(spoilt, sweeps=sweeps)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(spoilt[1230:1240], sweeps=sweeps)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(Source(spoilt), sweeps=sweeps)


def test_values_beyond_float32_are_refused(clusters: np.ndarray) -> None:
    huge = clusters.astype(np.float64)
    huge[7, 7] = 1e300
    with pytest.raises(ValueError, match="infinity or a value too large"):
        quick().fit(huge)
    with pytest.raises(ValueError, match="infinity or a value too large"):
        quick().fit(clusters).encode(huge)
    large, model = clusters.copy(), quick().fit(clusters)
    longest = np.abs(model.encoder_weights_).sum(axis=0).argmax()
    assert np.abs(model.encoder_weights_[:, longest]).sum() > 1.2
    large[7] = 3e38 * np.sign(model.encoder_weights_[:, longest])
    for rows in (large, large[:10]):
        with pytest.raises(InvalidInput, match="projection is infinite in float32"):
            model.encode(rows)


def test_other_wrong_input_is_refused(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    with pytest.raises(ValueError, match="X has 19 features, but SGH is expecting 20 features"):
        model.encode(clusters[:, :19])
    with pytest.raises(TypeError, match="dense data is required"):
        quick().fit(sparse.csr_matrix(clusters))
    with pytest.raises(ValueError, match="Complex data not supported"):
        quick().fit(clusters.astype(np.complex64))
    with pytest.raises(ValueError, match="is not fitted yet"):
        SGH().encode(clusters)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        quick().fit(clusters[:0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_bits": 0}, "n_bits must lie between"),
        ({"gradient": "reinforce"}, "gradient must be one of"),
        ({"coding": "ternary"}, "coding must be one of"),
        ({"metric": "l1"}, "metric must be one of"),
        ({"init": "zeros"}, "init must be one of"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of"),
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be finite and above 0"),
        ({"learning_rate": "fast"}, "learning_rate must be a number"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"n_steps": 1.5}, "n_steps must be a whole number"),
        ({"kl_weight": -1.0}, "kl_weight must not be negative"),
        ({"kl_weight": (1, 0, 1)}, "kl_weight must be a number or"),
        ({"noise": "some"}, "noise must be a number"),
        ({"patience": 3, "validation_fraction": 1.0}, "validation_fraction must lie between"),
        ({"terms": {"entropy": 1.0}}, "a name in terms must be one of"),
        ({"decoder_scale": "std"}, "decoder_scale must be None or 'variance'"),
    ],
)
def test_options_that_cannot_be_used(
    options: dict[str, Any], sentence: str, clusters: np.ndarray
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        quick(**options).fit(clusters)


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
    weights = fitted._trainer.parameters.flat.copy()
    with pytest.raises(ValueError, match="contain"):
        fitted.partial_fit(np.full((600, 20), np.nan))
    assert fitted.fingerprint_ == before
    np.testing.assert_array_equal(fitted._trainer.parameters.flat, weights)


def test_a_callback_that_stops_training_leaves_the_model_as_it_was(clusters: np.ndarray) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    model = quick(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(clusters)
    assert not hasattr(model, "encoder_weights_") and not hasattr(model, "n_features_in_")


def test_progress_and_history(clusters: np.ndarray) -> None:
    seen: list[Progress] = []
    model = quick(callback=seen.append, report_every=30).fit(clusters)
    assert [progress.step for progress in seen] == [30, 60, 90, 120]
    assert all(progress.total == 120 for progress in seen)
    assert set(seen[0].values) == {"description_length", "reconstruction_error", "bits_in_use"}
    assert model.history_["step"] == [30, 60, 90, 120]
    assert model.history_["reconstruction_error"][-1] == seen[-1].values["reconstruction_error"]
    assert 0 < model.history_["bits_in_use"][-1] <= 12
    lengths = quick(refit=False).fit(clusters)
    final = lengths.description_length(clusters).total.mean()
    assert lengths.history_["description_length"][-1] == pytest.approx(final, rel=0.05)


@pytest.mark.slow
def test_early_stopping(clusters: np.ndarray) -> None:
    model = quick(n_steps=5000, report_every=50, patience=3, kl_weight=0.1).fit(clusters)
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
    assert quick(n_passes=2.5, batch_size=500).fit(clusters).steps_done_ == 15


def test_random_iterates_are_iterates(clusters: np.ndarray) -> None:
    options = {"optimizer": "sgd", "learning_rate": 0.05, "refit": False, "n_steps": 60}
    last = quick(**options).fit(clusters)
    for iterate in ("theorem1", "theorem2"):
        model = quick(**options, iterate=iterate).fit(clusters)
        assert model.fingerprint_ != last.fingerprint_
        assert model.reconstruction_error(clusters) < float(clusters.var(axis=0).sum())


def test_fixed_noise_stays(clusters: np.ndarray) -> None:
    assert quick(noise=2.5).fit(clusters).noise_variance_ == pytest.approx(2.5, rel=1e-5)


def test_cosine_sees_directions_only(clusters: np.ndarray, rng: np.random.Generator) -> None:
    model = quick(metric="cosine").fit(clusters)
    stretched = clusters * rng.uniform(0.1, 10, (len(clusters), 1)).astype(np.float32)
    same = model.transform(stretched) == model.transform(clusters)
    assert same.mean() > 0.9999
    assert model.reconstruction_error(clusters) < 1


def test_sampling(clusters: np.ndarray) -> None:
    model = quick(kl_weight=1.0).fit(clusters)
    p = model.bit_probabilities(clusters[:200])
    assert p.shape == (200, 12) and p.dtype == np.float32
    np.testing.assert_array_equal(p > 0.5, model.transform(clusters[:200]))
    draws = np.mean(
        [
            np.unpackbits(model.sample_codes(clusters[:200], seed), axis=1, count=12)
            for seed in range(200)
        ],
        axis=0,
    )
    assert np.abs(draws - p).max() < 0.2 and np.abs(draws - p).mean() < 0.03
    vectors = model.sample(2000, random_state=1)
    assert vectors.shape == (2000, 20)
    np.testing.assert_allclose(vectors.mean(axis=0), clusters.mean(axis=0), atol=0.7)
    np.testing.assert_array_equal(vectors, model.sample(2000, random_state=1))
    with pytest.raises(InvalidInput, match="n must be a whole number"):
        model.sample(0)


def test_pieces_reach_the_quality_of_all(clusters: np.ndarray) -> None:
    whole = quick(n_steps=300).fit(clusters)
    online = quick(n_steps=300)
    for turn in range(50):
        start = 500 * (turn % 6)
        online.partial_fit(clusters[start : start + 500])
    for turn in range(42):  # pieces of other sizes, down to single vectors
        start = 71 * turn
        online.partial_fit(clusters[start : start + 71])
    assert online.steps_done_ == 50 + 42
    for _ in range(40):
        online.partial_fit(clusters)
    assert online.reconstruction_error(clusters) < 1.05 * whole.reconstruction_error(clusters)


@pytest.mark.slow
def test_pieces_of_real_data_reach_the_quality_of_all(data_folder: Path) -> None:
    with np.load(data_folder / "sift_photos_500k.npz") as data:
        vectors = data["base"][np.random.default_rng(0).permutation(500_000)[:60_000]]
    vectors, unseen = vectors[:50_000], vectors[50_000:]
    whole = SGH(n_bits=32, n_passes=10, random_state=0).fit(vectors)
    online = SGH(n_bits=32, n_steps=1000, random_state=0)
    for _ in range(10):
        for start in range(0, 50_000, 10_000):
            online.partial_fit(vectors[start : start + 10_000])
    assert online.steps_done_ == whole.steps_done_ == 1000
    assert online.reconstruction_error(unseen) < 1.01 * whole.reconstruction_error(unseen)


def test_online_learning_goes_on_after_fit_and_after_loading(
    clusters: np.ndarray, tmp_path: Path
) -> None:
    model = quick().fit(clusters[:300])
    before = model.reconstruction_error(clusters)
    model.save(tmp_path / "model")
    loaded = SGH.load(tmp_path / "model")
    for candidate in (model, loaded):
        for _ in range(30):
            candidate.partial_fit(clusters)
        assert candidate.reconstruction_error(clusters) < before
        assert candidate.steps_done_ == 120 + 30 * 6
    with pytest.raises(ValueError, match="expecting 20 features"):
        model.partial_fit(clusters[:, :3])


@pytest.mark.parametrize("coding", ["signed", "binary"])
def test_single_vectors_do_no_harm(coding: str, clusters: np.ndarray) -> None:
    model = quick(coding=coding).fit(clusters)
    before = model.reconstruction_error(clusters)
    for i in range(30):
        model.partial_fit(clusters[i : i + 1])
    assert model.reconstruction_error(clusters) < 1.1 * before
    assert model.description_length(clusters).code.mean() < 12
    fresh = quick(coding=coding)
    for i in range(5):
        fresh.partial_fit(clusters[i : i + 1])
    assert np.isfinite(fresh.decode(fresh.encode(clusters))).all()


def test_files(clusters: np.ndarray, tmp_path: Path) -> None:
    model = quick(kl_weight=(0.5, 0.0), terms={"weight_decay": 1e-4}).fit(clusters)
    model.save(tmp_path / "model")
    loaded = sghash.load_model(tmp_path / "model")
    assert isinstance(loaded, SGH) and loaded.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(loaded.encode(clusters), model.encode(clusters))
    assert loaded.history_ == model.history_
    assert loaded.fit(clusters).fingerprint_ == model.fingerprint_  # the options came along


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_files_with_numbers_that_are_not_finite_are_refused(
    number: str, clusters: np.ndarray, tmp_path: Path
) -> None:
    quick(n_steps=5).fit(clusters).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    text = re.sub(r'("noise_variance_": )[^,\n]+', rf"\g<1>{number}", path.read_text())
    path.write_text(text)
    with pytest.raises(BadFile, match="noise_variance_ is not a finite number"):
        sghash.load_model(tmp_path / "model")


def test_presets_are_what_they_say(clusters: np.ndarray) -> None:
    paper = SGH.paper(n_bits=8, random_state=0, n_steps=300)
    assert (paper.coding, paper.gradient, paper.init) == ("binary", "approximate", "random")
    assert (paper.kl_weight, paper.batch_size, paper.learning_rate) == (1.0, 500, 0.01)
    assert paper.refit is False and paper.sampling == "uniform"
    script = SGH.authors_script(n_bits=8, random_state=0, n_steps=300)
    assert (script.coding, script.gradient) == ("binary", "straight-through")
    assert script.schedule == "constant" and script.noise == 1.0 and not script.standardize
    assert script.terms == {"confidence": 1e-3, "weight_decay": 2e-6}
    nothing = float(clusters.var(axis=0).sum())
    assert paper.fit(clusters).reconstruction_error(clusters) < 0.7 * nothing
    unit = clusters / 20
    assert script.fit(unit).reconstruction_error(unit) < 0.7 * nothing / 400
    with pytest.raises(InvalidInput, match="a preset fixes coding, init"):
        SGH.paper(coding="signed", init="itq")


def test_extra_terms_change_training(clusters: np.ndarray) -> None:
    plain = quick().fit(clusters)
    decayed = quick(terms={"weight_decay": 0.05}).fit(clusters)
    assert np.square(decayed.encoder_weights_).sum() < np.square(plain.encoder_weights_).sum()


REPEAT = """
import numpy as np
from sghash import SGH
X = np.random.default_rng(0).standard_normal((2000, 24)).astype(np.float32)
print(SGH(n_bits=16, n_steps=100, gradient={gradient!r}, random_state=3).fit(X).fingerprint_)
"""


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


def test_importing_the_model_loads_no_compiler() -> None:
    script = "import sys, sghash.models.sgh; print('numba' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
