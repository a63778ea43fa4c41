"""A model's file is refused in a sentence unless all of it fits the class; whole ones are not."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from sklearn.base import clone

import sghash
from sghash.errors import BadFile
from sghash.models import MODELS, load_model, model_class
from sghash.models.contents import CONTENTS
from sghash.models.store import fingerprint_of


@pytest.fixture
def folder(tmp_path, rng):
    vectors = rng.standard_normal((60, 6)).astype(np.float32)
    sghash.ITQ(n_bits=16, n_iterations=2, random_state=0).fit(vectors).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_learned_attribute_is_described(name):
    model = model_class(name)
    assert set(CONTENTS[name]) == {*model.learned_names, *model.optional_names}


CONSTANT = np.full((30, 6), 2.5, dtype=np.float32)
VARIED = np.random.default_rng(1).random((70, 6), dtype=np.float32)
PLAIN = sghash.Recipe(noise=1, init="random", refit=False, standardize=False)


@pytest.mark.parametrize(
    "vectors",
    [VARIED, CONSTANT, VARIED[:2], VARIED[:, :1]],
    ids=["varied", "constant", "two rows", "one column"],
)
@pytest.mark.parametrize(
    "model",
    [
        sghash.SGH(n_bits=9, n_steps=3, metric="cosine", coding="binary"),
        sghash.SGH(9, n_steps=3, goal="reconstruction", learning_rate=1e-4, recipe=PLAIN),
        sghash.SGH(9, n_steps=3, hidden=5),
        sghash.SGH(9, n_steps=3, hidden=5, neighbors=3, metric="cosine", coding="binary"),
        sghash.models.GeneralSGH(n_bits=9, n_steps=2, decoder="bernoulli"),
        sghash.models.GeneralSGH(n_bits=9, n_steps=2, decoder="gaussian"),
        sghash.models.GeneralSGH(n_bits=9, n_steps=2, decoder="multinomial"),
        sghash.models.GeneralSGH(n_bits=9, n_steps=2, n_hidden=3),
        sghash.models.ScaleInvariantSGH(n_bits=9, n_steps=2, origin="mean"),
        sghash.models.KMeansHashing(n_bits=13, n_iterations=1, bits_per_part=5),
        sghash.models.SpectralHashing(n_bits=40),
        sghash.models.SignHashing(n_bits=40, rotate=True),
        sghash.models.SignHashing(n_bits=3),
        sghash.models.BinaryAutoencoder(n_bits=5, n_iterations=0),
        sghash.models.GraphHashing(n_bits=5),
        sghash.ProductQuantizer(n_parts=4, n_iterations=1),
        sghash.ProductQuantizer(n_parts=1, n_iterations=1, rotate=True, n_rotations=1),
        sghash.models.PCAReconstruction(n_components=9),
    ],
    ids=str,
)
def test_whatever_is_fitted_can_be_loaded(tmp_path, model, vectors):
    if getattr(model, "decoder", None) in ("bernoulli", "multinomial"):
        vectors = vectors / 3
    fitted = clone(model).fit(vectors)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").encode(vectors), fitted.encode(vectors)
    )


def with_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "damaged"),
        ('{"a":' * 100_000, "damaged"),
        ("9" * 5000, "damaged"),
        ("[]", "not the config"),
        ("\udcff", "damaged"),
        (" " * ((1 << 26) + 1), "larger than any config"),
    ],
)
def test_a_config_that_is_none(folder, text, said):
    (folder / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadFile, match=said):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": ["ITQ"]}, "unknown class"),
        ({"format_version": True}, "no format version"),
        ({"options": [1]}, "options must be a dict"),
        ({"options": {"n_bits": "16"}}, "n_bits must be a whole number"),
        ({"options": {"n_bits": -16}}, "n_bits must lie"),
        ({"options": {"n_bits": 15}}, r"shape \(6, 15\), got \(6, 16\)"),
        ({"scalars": {"n_features_in_": 10**30}}, "shape"),
        ({"scalars": {"n_features_in_": "6"}}, "n_features_in_ must be a whole number"),
        ({"feature_names": [["a"]] * 6}, "feature_names"),
        ({"feature_names": ["a"]}, "feature_names"),
        ({"recorded": 5}, "recorded must be a dict"),
    ],
)
def test_a_config_of_wrong_values(folder, changes, said):
    with_config(folder, **changes)
    with pytest.raises(BadFile, match=said):
        load_model(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_pipe_is_no_file(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(BadFile, match=f"has no {name}"):
        load_model(folder)


@pytest.mark.parametrize("name", ["mean_", "projection_", "decoder_", "decoder_offset_"])
@pytest.mark.parametrize(
    "change",
    [lambda a: a[None], lambda a: a[..., None], lambda a: a[:1], lambda a: a.astype("f8")],
    ids=["one axis before", "one axis behind", "one row", "another type"],
)
def test_arrays_that_do_not_fit_are_refused_though_the_fingerprint_is_right(folder, name, change):
    model = load_model(folder)
    setattr(model, name, change(getattr(model, name)))
    model.save(folder, overwrite=True)
    assert json.loads((folder / "config.json").read_text())["fingerprint"] == fingerprint_of(model)
    with pytest.raises(BadFile, match=rf"no usable model \({name} must"):
        load_model(folder)


def test_a_wide_code_without_tables_is_refused(tmp_path):
    """Few bytes of file that would become a product of gigabytes."""
    model = sghash.GenerativeQuantizer(n_bytes=200, metric="ip")
    model.n_features_in_, model.term_low_, model.term_step_ = 1, 0.0, 1.0
    model.encoder_weights_ = np.zeros((1, 1600), dtype=np.float32)
    model.encoder_bias_ = np.zeros(1600, dtype=np.float32)
    model.tables_ = np.zeros((200, 256, 1), dtype=np.float32)
    model.bias_ = np.zeros(1, dtype=np.float32)
    model.save(tmp_path / "model")
    with pytest.raises(BadFile, match="n_bytes must lie between"):
        load_model(tmp_path / "model")


def test_a_network_that_ends_too_wide_is_refused(tmp_path):
    model = sghash.models.DeepSGH(n_bits=8)
    model.n_features_in_ = 3
    model.encoder_layers_ = [{"kind": "linear", "shape": [3, 9]}]
    model.encoder_numbers_ = np.zeros(36, dtype=np.float32)
    model.decoder_layers_ = [{"kind": "linear", "shape": [8, 3]}]
    model.decoder_numbers_ = np.zeros(27, dtype=np.float32)
    model.save(tmp_path / "model")
    with pytest.raises(BadFile, match=r"encode gives shape \(3, 9\)"):
        load_model(tmp_path / "model")
