"""`SGH(hidden=...)` in files: its arrays, the files of linear models, and wrong ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sghash.errors import BadFile
from sghash.models.sgh import SGH

GOLDEN = Path(__file__).parents[2] / "golden"


def quick(**options: Any) -> SGH:
    chosen = {"n_bits": 12, "hidden": 10, "n_steps": 30, "random_state": 0, **options}
    return SGH().set_params(**chosen)


def test_another_number_of_units_asks_for_another_fit(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    codes = model.encode(clusters)
    for hidden in (0, 11):
        with pytest.raises(NotFittedError):
            model.set_params(hidden=hidden).encode(clusters)
    np.testing.assert_array_equal(model.set_params(hidden=10).encode(clusters), codes)
    linear = model.set_params(hidden=0).fit(clusters)
    assert not hasattr(linear, "hidden_weights_")
    assert linear.fingerprint_ == quick(hidden=0).fit(clusters).fingerprint_
    with pytest.raises(NotFittedError):
        linear.set_params(hidden=10).encode(clusters)


def test_the_file_of_a_linear_model_says_nothing_of_hidden_layers(
    clusters: np.ndarray, tmp_path: Path
) -> None:
    quick(hidden=0).fit(clusters).save(tmp_path / "model")
    assert "hidden" not in (tmp_path / "model" / "config.json").read_text()
    assert b"hidden" not in (tmp_path / "model" / "model.safetensors").read_bytes()
    assert SGH.load(tmp_path / "model").hidden == 0


def numbers(n: int) -> np.ndarray:
    return ((np.arange(n * 6).reshape(n, 6) * 37) % 11 - 5).astype(np.float32)


def test_the_file_of_a_hidden_layer_stays_readable(tmp_path: Path) -> None:
    model = SGH.load(GOLDEN / "sgh-hidden")
    assert (model.n_bits, model.hidden, model.neighbors) == (8, 3, 2)
    assert model.encode(numbers(11)).tobytes().hex() == "9f0a6605f8b29b6c67dcf9"
    linear = numbers(40) @ model.encoder_weights_ + model.encoder_bias_ > 0
    assert (linear != model.transform(numbers(40))).any()  # the layer has a say
    model.save(tmp_path / "again")
    kept, again = (
        (folder / "model.safetensors").read_bytes()
        for folder in (GOLDEN / "sgh-hidden", tmp_path / "again")
    )
    assert kept == again
    assert SGH.load(tmp_path / "again").get_params() == model.get_params()


@pytest.mark.parametrize("name", ["hidden_weights_", "hidden_bias_", "hidden_output_"])
@pytest.mark.parametrize(
    "change",
    [lambda a: a[None], lambda a: a[:1], lambda a: a.astype("f8"), lambda a: a[..., :-1]],
    ids=["one axis before", "one row", "another type", "one column less"],
)
def test_hidden_arrays_that_do_not_fit_are_refused(name: str, change: Any, tmp_path: Path) -> None:
    model = SGH.load(GOLDEN / "sgh-hidden")
    setattr(model, name, change(getattr(model, name)))
    model.save(tmp_path / "model")
    with pytest.raises(BadFile, match=rf"no usable model \({name} must"):
        SGH.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (4, r"hidden_weights_ must have shape \(6, 4\)"),
        (-3, "hidden must be at least 0"),
        ("3", "hidden must be a whole number"),
        (True, "hidden must be a whole number"),
        (0, "fingerprint"),
    ],
)
def test_a_wrong_number_of_units_in_a_file_is_refused(
    hidden: Any, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "sgh-hidden", folder)
    config = json.loads((folder / "config.json").read_text())
    config["options"]["hidden"] = hidden
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadFile, match=said):
        SGH.load(folder)


def test_a_linear_file_that_claims_units_is_refused(clusters: np.ndarray, tmp_path: Path) -> None:
    quick(hidden=0, n_steps=3).fit(clusters).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["options"]["hidden"] = 10
    path.write_text(json.dumps(config))
    with pytest.raises(BadFile, match="lacks hidden_weights_"):
        SGH.load(tmp_path / "model")
