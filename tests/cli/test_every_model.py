"""Every model on the command line: what it can do works, what it cannot is one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import sghash
from sghash.models import MODELS


def refused(out, *words):
    """Exit code 1 and one sentence that has all `words`."""
    assert out.returncode == 1 and out.stdout == "", out.stderr
    assert len(out.stderr.strip().splitlines()) == 1 and out.stderr.startswith("sghash: ")
    assert all(word in out.stderr for word in words), out.stderr


def test_sweeps_of_a_model_that_cannot_sharpen_are_refused(run, folder, vectors):
    """Also of one that has a prior like SGH: its decoder is another."""
    for model in (
        sghash.models.GeneralSGH(n_bits=8, n_steps=5, n_hidden=8, random_state=0),
        sghash.ITQ(n_bits=8, n_iterations=1, random_state=0),
        sghash.ProductQuantizer(n_parts=2, n_iterations=1, random_state=0),
    ):
        model.fit(vectors).save(folder / "model", overwrite=True)
        out = run("encode", "model", "vectors.npy", "new.npy", "--sweeps", 2, cwd=folder)
        refused(out, "--sweeps is for SGH", type(model).__name__)
        assert not (folder / "new.npy").exists()


@pytest.mark.parametrize(
    ("model", "n_bits", "width", "dtype"),
    [("ProductQuantizer", 24, 3, np.uint8), ("PCAReconstruction", 64, 2, np.float32)],
)
def test_codes_that_are_not_bits_come_and_go(run, folder, vectors, model, n_bits, width, dtype):
    arguments = ("fit", "vectors.npy", "new", "--model", model, "--bits", n_bits, "--json")
    fitted = run(*arguments, cwd=folder).facts
    assert (fitted["model"], fitted["n_bits"]) == (model, n_bits)
    encoded = run("encode", "new", "vectors.npy", "new.npy", "--json", cwd=folder).facts
    codes = np.load(folder / "new.npy")
    assert codes.shape == (60, width) and codes.dtype == dtype
    assert encoded["n_bits"] == n_bits and encoded["bytes"] == codes.nbytes
    assert run("decode", "new", "new.npy", "back.npy", cwd=folder).returncode == 0
    known = sghash.load_model(folder / "new")
    assert np.array_equal(np.load(folder / "back.npy"), known.decode(codes))
    about = run("info", "new", "--json", cwd=folder).facts
    assert about["n_bits"] == n_bits and about["codes"] == known.capabilities.codes


def test_lengths_that_a_model_cannot_have_are_refused(run, folder):
    fit = ("fit", "vectors.npy", "new", "--model")
    refused(run(*fit, "ProductQuantizer", "--bits", 20, cwd=folder), "multiple of 8 bits, got 20")
    refused(run(*fit, "GenerativeQuantizer", "--bits", 8, cwd=folder), "16 to 256 bits, got 8")
    for model, option in (("ITQ", "n_bits=8"), ("ProductQuantizer", "n_parts=2")):
        out = run(*fit, model, "-o", option, cwd=folder)
        refused(out, "number of bits", option.partition("=")[0])
    assert not (folder / "new").exists()


def test_a_collection_of_numbers_is_refused_before_anything_is_fitted(run, folder, vectors):
    out = run("create", "new", "vectors.npy", "--model", "PCAReconstruction", cwd=folder)
    refused(out, "a collection needs", "PCAReconstruction")
    sghash.models.PCAReconstruction(n_components=2).fit(vectors).save(folder / "numbers")
    refused(run("create", "new", "--fitted", "numbers", cwd=folder), "a collection needs")
    assert not (folder / "new").exists()


def test_a_collection_whose_codes_cannot_score_cosine_is_refused(run, folder):
    create = ("create", "new", "vectors.npy", "--metric", "cosine", "--bits", 16)
    refused(run(*create, "--model", "ProductQuantizer", cwd=folder), "unit length", "use l2")
    assert not (folder / "new").exists()


def test_codes_without_a_decoder_are_not_decoded(run, folder, vectors):
    sghash.models.LSH(n_bits=16, random_state=0).fit(vectors).save(folder / "lsh")
    out = run("decode", "lsh", "codes.npy", "new.npy", cwd=folder)
    refused(out, "LSH has no decoder")


@pytest.mark.parametrize("verb", ["fit", "create", "evaluate"])
def test_a_missing_extra_is_named_before_anything_is_done(run, folder, monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "torch", None)
    arguments = {
        "fit": ("vectors.npy", "new", "--model", "DeepSGH"),
        "create": ("new", "vectors.npy", "--model", "DeepSGH"),
        "evaluate": ("vectors.npy", "--models", "LSH,DeepSGH"),
    }[verb]
    refused(run(verb, *arguments, cwd=folder), "'torch'", "pip install", "[torch]'")


def test_evaluate_measures_quantizers_and_refuses_numbers(run, folder):
    spec = "LSH,ProductQuantizer(n_iterations=1)"
    arguments = ("evaluate", "vectors.npy", "--bits", 16, "--recall", 1, "--json")
    facts = run(*arguments, "--models", spec, cwd=folder).facts
    rows = [row for row in facts["rows"] if row["n_bits"] == 16]
    assert [row["model"] for row in rows] == spec.split(",")
    assert [row["bytes_per_vector"] for row in rows] == [2, 2]
    assert rows[1]["recall10@10"] > rows[0]["recall10@10"]
    out = run(*arguments, "--models", "LSH,PCAReconstruction", cwd=folder)
    refused(out, "PCAReconstruction makes numbers")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_listed_and_described(run, offered, name):
    assert name in run("info", "--json").facts["models"]
    facts = run("info", name, "--json").facts
    can = sghash.models.model_class(name)().capabilities
    assert facts["about"] and facts["codes"] == can.codes
    presets = ["SGH.paper", "SGH.authors_script"] if name == "SGH" else []
    assert facts["presets"] == presets
    assert ("decode" in facts["can"]) == can.decodes
    assert can.length.option not in facts["options"] and "random_state" not in facts["options"]
    assert name in offered("fit", "v.npy", "m", "--model", name[:2])
