"""Model files: a folder with `config.json` (what it is) and `model.safetensors` (what it learned).

No pickle: a file can hold numbers and names, never code. Everything is checked on load.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sghash.errors import BadFile, InvalidInput, NewerFormat
from sghash.files import storage_errors, sync_folder, usual_mode

if TYPE_CHECKING:
    from sghash.models.base import VectorModel

FORMAT = "sghash-model"
FORMAT_VERSION = 1


def learned_state(model: VectorModel) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What the model learned: arrays by name, and plain numbers by name."""
    tensors: dict[str, NDArray[Any]] = {}
    scalars: dict[str, Any] = {"n_features_in_": int(model.n_features_in_)}
    for name in model._learned:
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
        "n_bits": getattr(model, "n_bits", None),
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
    from safetensors.numpy import save_file

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
        "options": {k: v for k, v in model.get_params(deep=False).items() if _is_json(v)},
        "scalars": scalars,
        "recorded": {k: getattr(model, k) for k in model._recorded if hasattr(model, k)},
        "tensors": {name: [a.dtype.str, list(a.shape)] for name, a in tensors.items()},
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "fingerprint": fingerprint_of(model),
        "sghash_version": sghash.__version__,
    }
    with storage_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            temporary.chmod(0o755)
            save_file(tensors, temporary / "model.safetensors")
            text = json.dumps(config, indent=2, sort_keys=True) + "\n"
            (temporary / "config.json").write_text(text, encoding="utf-8")
            for name in ("model.safetensors", "config.json"):
                (temporary / name).chmod(usual_mode())
                with open(temporary / name, "rb+") as stream:
                    os.fsync(stream.fileno())
            _swap_in(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def refuse_other(folder: Path) -> None:
    """Refuse to replace what is not a model."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file, a model is a folder: give another name")
    if folder.exists() and not (folder / "config.json").is_file() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} holds something that is not a model: give another folder")


def _swap_in(temporary: Path, folder: Path) -> None:
    if folder.exists():
        old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
        try:
            os.replace(folder, old)
            os.replace(temporary, folder)
        except BaseException:
            # Ctrl-C may come before, between or after the two.
            if not folder.exists():
                os.replace(old, folder)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(temporary, folder)
    sync_folder(folder.parent)


def read_config(folder: Path) -> dict[str, Any]:
    """The checked `config.json` of a model folder."""
    path = folder / "config.json"
    if not folder.exists():
        raise BadFile(f"there is no model folder {folder}: check the path")
    if not path.is_file():
        raise BadFile(f"{folder} is not a model folder: it has no config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadFile(f"{path} is damaged ({error}): save the model again") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BadFile(f"{path} is not the config of an sghash model")
    version = config.get("format_version")
    if not isinstance(version, int):
        raise BadFile(f"{path} names no format version: save the model again")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{path} has format version {version}, this sghash reads up to {FORMAT_VERSION}: "
            "upgrade sghash"
        )
    return config


def restore(model: VectorModel, folder: Path, config: dict[str, Any]) -> None:
    """Give an unfitted `model` the learned state in `folder`, checking sizes and numbers."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = folder / "model.safetensors"
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise BadFile(f"{folder} has no model.safetensors: save the model again") from error
    except (SafetensorError, ValueError, OSError) as error:
        raise BadFile(f"{path} is truncated or damaged ({error}): save the model again") from error
    found = {name: [a.dtype.str, list(a.shape)] for name, a in tensors.items()}
    if found != config.get("tensors"):
        raise BadFile(f"{path} does not hold the arrays that config.json lists: save it again")
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadFile(f"{path}: {name} holds NaN or infinite values; fit the model again")
    scalars = config.get("scalars", {})
    for name, number in scalars.items():
        if isinstance(number, float) and not np.isfinite(number):
            raise BadFile(f"{folder}: {name} is not a finite number; fit the model again")
    state = {**tensors, **scalars}
    for name in ("n_features_in_", *model._learned):
        if name not in state:
            raise BadFile(f"{folder} lacks {name}: save the model again")
        setattr(model, name, state[name])
    for name in model._recorded:
        if name in config.get("recorded", {}):
            setattr(model, name, config["recorded"][name])
    if config.get("feature_names"):
        model.feature_names_in_ = np.asarray(config["feature_names"], dtype=object)
    if fingerprint_of(model) != config.get("fingerprint"):
        raise BadFile(f"{folder} is damaged: its fingerprint does not match; save the model again")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
