"""Model files: a folder with `config.json` (what it is) and `model.safetensors` (what it learned).

No pickle: a file can hold numbers and names, never code. Everything is checked on load.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, InvalidInput, NewerFormat
from sghash.files import storage_errors, usual_mode
from sghash.models.contents import check_contents
from sghash.models.late_estimator import options_of
from sghash.models.placing import missing, place

if TYPE_CHECKING:
    from sghash.models.base import VectorModel

FORMAT = "sghash-model"
FORMAT_VERSION = 1
# Histories and names of columns are long at times, but not like this.
MAX_CONFIG_BYTES = 1 << 26
# What else `config.json` holds, and of what type.
_PARTS: dict[str, type] = {
    "options": dict,
    "scalars": dict,
    "recorded": dict,
    "tensors": dict,
    "feature_names": list,
}


def learned_state(model: VectorModel) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What the model learned: arrays by name, and plain numbers by name."""
    tensors: dict[str, NDArray[Any]] = {}
    scalars: dict[str, Any] = {"n_features_in_": int(model.n_features_in_)}
    for name in model.stored_names:
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            tensors[name] = np.ascontiguousarray(value)
        else:
            scalars[name] = value.item() if isinstance(value, np.generic) else value
    return tensors, scalars


def fingerprint_of(model: VectorModel) -> str:
    """SHA-256 of class, code length and learned state."""
    tensors, scalars = learned_state(model)
    digest = hashlib.sha256()
    head = {
        "model": type(model).__name__,
        "n_bits": options_of(model).get("n_bits"),
        "scalars": scalars,
    }
    digest.update(json.dumps(head, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_model(model: VectorModel, folder: Path, *, overwrite: bool) -> None:
    """Write a new folder beside the target, then rename it into place."""
    from safetensors.numpy import save

    import sghash

    with storage_errors(folder):
        if folder.exists() and not overwrite:
            raise InvalidInput(f"{folder} exists already: give another folder or overwrite=True")
        refuse_other(folder)
    tensors, scalars = learned_state(model)
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": type(model).__name__,
        "options": {k: v for k, v in model.options_to_save().items() if _is_json(v)},
        "scalars": scalars,
        "recorded": {k: vars(model)[k] for k in model.recorded_names if k in vars(model)},
        "tensors": {name: [a.dtype.str, list(a.shape)] for name, a in tensors.items()},
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "fingerprint": fingerprint_of(model),
        "sghash_version": sghash.__version__,
    }
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"

    def fill(new: Path) -> None:
        (new / "model.safetensors").write_bytes(save(tensors))
        (new / "config.json").write_text(text, encoding="utf-8")
        for name in ("model.safetensors", "config.json"):
            (new / name).chmod(usual_mode())
            with open(new / name, "rb+") as stream:
                os.fsync(stream.fileno())

    place(folder, fill)


def refuse_other(folder: Path) -> None:
    """Refuse to replace what is not a model."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file, a model is a folder: give another name")
    if folder.exists() and not (folder / "config.json").is_file() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} holds something that is not a model: give another folder")


def read_config(folder: Path) -> dict[str, Any]:
    """The checked `config.json` of a model folder."""
    path = folder / "config.json"
    if not folder.exists() and (error := missing(folder)) is not None:
        raise error
    if not path.is_file():
        raise BadFile(f"{folder} is not a model folder: it has no config.json")
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_CONFIG_BYTES + 1)
        if len(text) > MAX_CONFIG_BYTES:
            raise BadFile(f"{path} is larger than any config of a model: save the model again")
        config = json.loads(text.decode())
    except BadFile:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} is damaged ({error}): save the model again") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BadFile(f"{path} is not the config of an sghash model")
    version = config.get("format_version")
    if type(version) is not int:
        raise BadFile(f"{path} names no format version: save the model again")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {FORMAT_VERSION}: "
            "upgrade sghash"
        )
    for key, kind in _PARTS.items():
        if not isinstance(config.setdefault(key, kind()), kind):
            raise BadFile(f"{path} is damaged: {key} must be a {kind.__name__}; save it again")
    return config


def restore(model: VectorModel, folder: Path, config: dict[str, Any]) -> None:
    """Give an unfitted `model` the learned state in `folder`, checking that it can be used."""
    tensors = _read_tensors(folder / "model.safetensors")
    found = {name: [a.dtype.str, list(a.shape)] for name, a in tensors.items()}
    if found != config["tensors"]:
        raise BadFile(
            f"{folder / 'model.safetensors'} does not hold the arrays that config.json lists: "
            "save it again"
        )
    state = {**tensors, **config["scalars"]}
    for name in ("n_features_in_", *model.stored_names):
        if name not in state:
            raise BadFile(f"{folder} lacks {name}: save the model again")
        setattr(model, name, state[name])
    with _usable(folder):
        check_contents(model)
        if model.n_features_in_ > sum(array.size for array in tensors.values()):
            raise BadFile(f"there is nothing in it for vectors {model.n_features_in_} wide")
    if fingerprint_of(model) != config.get("fingerprint"):
        raise BadFile(f"{folder} is damaged: its fingerprint does not match; save the model again")
    with _usable(folder):
        model.try_out()
        _restore_records(model, config)
    model.remember_shapes()


def _read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load_file

    if not path.is_file():
        raise BadFile(f"{path.parent} has no model.safetensors: save the model again")
    try:
        tensors: dict[str, NDArray[Any]] = load_file(path)
    except Exception as error:
        # Of a damaged file, its reader says SafetensorError, KeyError, TypeError and others.
        raise BadFile(f"{path} is truncated or damaged ({error}): save the model again") from error
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadFile(f"{path}: {name} holds NaN or infinite values; fit the model again")
    return tensors


def _restore_records(model: VectorModel, config: dict[str, Any]) -> None:
    """What was noted for information, and the names of the columns."""
    for name in model.recorded_names:
        if name in config["recorded"]:
            value = config["recorded"][name]
            if not isinstance(value, dict if name == "history_" else int):
                raise BadFile(f"{name} is a {type(value).__name__}")
            setattr(model, name, value)
    names = config["feature_names"]
    if names:
        if len(names) != model.n_features_in_ or not all(isinstance(name, str) for name in names):
            raise BadFile(f"feature_names must be {model.n_features_in_} texts")
        model.feature_names_in_ = np.asarray(names, dtype=object)


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Whatever fails with what a file holds becomes one sentence about the file."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadFile(f"{folder} holds no usable model ({reason}): save the model again") from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
