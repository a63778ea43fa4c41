"""What every model keeps in files, and when it must be fitted first or again."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sghash.errors import BadFile, InvalidInput, NewerFormat, SghashError
from sghash.models import load_model, model_class
from tests.contracts.small_models import (
    ALL,
    fitted,
    make,
    sample,
)

pytestmark = pytest.mark.usefixtures("quick_quantizer")


@pytest.mark.parametrize("name", ALL)
def test_unfitted_is_refused(name, tmp_path):
    for verb in ("encode", "transform"):
        with pytest.raises(NotFittedError):
            getattr(make(name), verb)(sample())
    with pytest.raises(NotFittedError):
        make(name).decode(np.zeros((1, 8)))
    with pytest.raises(NotFittedError):
        make(name).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", ALL)
def test_save_and_load(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    assert again.fingerprint_ == model.fingerprint_
    assert np.array_equal(again.encode(sample(seed=5)), model.encode(sample(seed=5)))
    assert again.code_bits == model.code_bits
    if model.capabilities.decodes:
        codes = model.encode(sample(seed=5))
        assert np.array_equal(again.decode(codes), model.decode(codes))
    with pytest.raises(InvalidInput, match="exists already"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)
    other = next(other for other in ALL if other != name)
    with pytest.raises(InvalidInput, match="load_model"):
        model_class(other).load(tmp_path / "model")


@pytest.mark.parametrize("name", ALL)
def test_damaged_files_are_refused(name, tmp_path):
    folder = tmp_path / "model"
    fitted(name).save(folder)
    tensors, config = folder / "model.safetensors", folder / "config.json"
    good_tensors, good_config = tensors.read_bytes(), config.read_text()

    def refused(expected: type[SghashError] = BadFile) -> None:
        with pytest.raises(expected):
            load_model(folder)
        tensors.write_bytes(good_tensors)
        config.write_text(good_config)
        load_model(folder)

    for cut in (0, 5, len(good_tensors) // 2, len(good_tensors) - 1):
        tensors.write_bytes(good_tensors[:cut])
        refused()
    changed = bytearray(good_tensors)
    changed[-3] ^= 0x10
    tensors.write_bytes(bytes(changed))
    refused()
    tensors.unlink()
    refused()
    config.write_text(good_config[: len(good_config) // 2])
    refused()
    for key, value, error in (
        ("model", "NoSuchModel", BadFile),
        ("format", "something", BadFile),
        ("format_version", 999, NewerFormat),
        ("options", {"no_such_option": 1}, BadFile),
        ("fingerprint", "0" * 64, BadFile),
        ("tensors", {}, BadFile),
    ):
        config.write_text(json.dumps({**json.loads(good_config), key: value}))
        refused(error)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_model_that_is_given_another_length_must_be_fitted_again(name, loaded, tmp_path):
    model = copy.deepcopy(fitted(name))
    if loaded:
        model.save(tmp_path / "first")
        model = load_model(tmp_path / "first")
    option = model.capabilities.length.option
    codes = model.encode(sample())
    before = getattr(model, option)
    model.set_params(**{option: before + 1})
    for use in (model.encode, model.transform, model.query_tables):
        with pytest.raises(NotFittedError):
            use(sample())
    with pytest.raises(NotFittedError):
        model.decode(codes)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    np.testing.assert_array_equal(model.set_params(**{option: before}).encode(sample()), codes)
