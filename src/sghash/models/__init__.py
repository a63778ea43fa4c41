"""Hashing models, one paper per file, behind one interface."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from sghash.errors import BadFile, InvalidInput

#: Every hashing model (packed codes of `n_bits` bits): class -> module, loaded when first used.
MODELS: dict[str, str] = {
    "BinaryAutoencoder": "sghash.models.baselines.binary_autoencoder",
    "GeneralSGH": "sghash.models.sgh.variants.general",
    "GraphHashing": "sghash.models.baselines.graph",
    "ITQ": "sghash.models.baselines.itq",
    "KMeansHashing": "sghash.models.baselines.kmeans",
    "LSH": "sghash.models.baselines.lsh",
    "PCAHashing": "sghash.models.baselines.pca",
    "SGH": "sghash.models.sgh",
    "ScaleInvariantSGH": "sghash.models.sgh.variants.scale_invariant",
    "SignHashing": "sghash.models.baselines.sign",
    "SpectralHashing": "sghash.models.baselines.spectral",
    "SphericalHashing": "sghash.models.baselines.spherical",
}

#: Models whose codes are not bits: what binary codes are measured against.
REFERENCE_MODELS: dict[str, str] = {
    "GenerativeQuantizer": "sghash.models.quantizers.generative",
    "PCAReconstruction": "sghash.models.quantizers.pca_reconstruction",
    "ProductQuantizer": "sghash.models.quantizers.product",
}

#: Hashing models that need an extra to be fitted; loaded ones encode without it.
EXTRA_MODELS: dict[str, str] = {"DeepSGH": "sghash.models.sgh.deep"}

# How often a model that is replaced while it is read is read again.
_ATTEMPTS = 20

_ALL = {**MODELS, **REFERENCE_MODELS, **EXTRA_MODELS}


def model_class(name: str) -> Any:
    """Return the class of the model called `name` in `MODELS` or `REFERENCE_MODELS`."""
    if name not in _ALL:
        raise InvalidInput(f"there is no model {name!r}: choose one of {', '.join(sorted(_ALL))}")
    return getattr(importlib.import_module(_ALL[name]), name)


def load_model(folder: str | Path) -> Any:
    """Read a fitted model of any class from `folder`."""
    path = Path(folder)
    for _ in range(_ATTEMPTS):
        before = _identity(path)
        try:
            return _load(path)
        except BadFile:
            # One file of the old model and one of the new, if it was saved anew just now.
            if _identity(path) == before:
                raise
    return _load(path)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _load(path: Path) -> Any:
    from sghash.models.store import read_config, restore

    config = read_config(path)
    name = config.get("model")
    if not isinstance(name, str) or name not in _ALL:
        raise BadFile(f"{path} holds a model of unknown class {name!r}: upgrade sghash")
    try:
        model = model_class(name)._from_saved_options(config["options"])
    except TypeError as error:
        raise BadFile(f"{path}/config.json has options that {name} does not know") from error
    restore(model, path, config)
    return model


def __getattr__(name: str) -> Any:
    if name in _ALL:
        return model_class(name)
    raise AttributeError(f"module 'sghash.models' has no attribute {name!r}")
