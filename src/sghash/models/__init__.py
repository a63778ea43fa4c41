"""Models that turn vectors into codes, one paper per file, behind one interface."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sghash.errors import BadFile, InvalidInput

if TYPE_CHECKING:  # what `__getattr__` resolves, for type checkers and editors
    from sghash.models.baselines.binary_autoencoder import (
        BinaryAutoencoder as BinaryAutoencoder,
    )
    from sghash.models.baselines.graph import (
        GraphHashing as GraphHashing,
    )
    from sghash.models.baselines.itq import (
        ITQ as ITQ,
    )
    from sghash.models.baselines.kmeans import (
        KMeansHashing as KMeansHashing,
    )
    from sghash.models.baselines.lsh import (
        LSH as LSH,
    )
    from sghash.models.baselines.pca import (
        PCAHashing as PCAHashing,
    )
    from sghash.models.baselines.sign import (
        SignHashing as SignHashing,
    )
    from sghash.models.baselines.spectral import (
        SpectralHashing as SpectralHashing,
    )
    from sghash.models.baselines.spherical import (
        SphericalHashing as SphericalHashing,
        spherical_hamming as spherical_hamming,
    )
    from sghash.models.quantizers.generative import (
        GenerativeQuantizer as GenerativeQuantizer,
    )
    from sghash.models.quantizers.pca_reconstruction import (
        PCAReconstruction as PCAReconstruction,
    )
    from sghash.models.quantizers.product import (
        ProductQuantizer as ProductQuantizer,
    )
    from sghash.models.sgh import (
        SGH as SGH,
    )
    from sghash.models.sgh.variants.deep import (
        DeepSGH as DeepSGH,
    )
    from sghash.models.sgh.variants.general import (
        GeneralSGH as GeneralSGH,
    )
    from sghash.models.sgh.variants.integer import (
        BinaryMinimum as BinaryMinimum,
        minimize_binary as minimize_binary,
    )
    from sghash.models.sgh.variants.scale_invariant import (
        ScaleInvariantSGH as ScaleInvariantSGH,
    )

#: Every model: class -> module, loaded when first used. `capabilities` says what each can do.
MODELS: dict[str, str] = {
    "BinaryAutoencoder": "sghash.models.baselines.binary_autoencoder",
    "DeepSGH": "sghash.models.sgh.variants.deep",
    "GeneralSGH": "sghash.models.sgh.variants.general",
    "GenerativeQuantizer": "sghash.models.quantizers.generative",
    "GraphHashing": "sghash.models.baselines.graph",
    "ITQ": "sghash.models.baselines.itq",
    "KMeansHashing": "sghash.models.baselines.kmeans",
    "LSH": "sghash.models.baselines.lsh",
    "PCAHashing": "sghash.models.baselines.pca",
    "PCAReconstruction": "sghash.models.quantizers.pca_reconstruction",
    "ProductQuantizer": "sghash.models.quantizers.product",
    "SGH": "sghash.models.sgh",
    "ScaleInvariantSGH": "sghash.models.sgh.variants.scale_invariant",
    "SignHashing": "sghash.models.baselines.sign",
    "SpectralHashing": "sghash.models.baselines.spectral",
    "SphericalHashing": "sghash.models.baselines.spherical",
}

# What else is imported from here -> its module.
_FUNCTIONS = {
    "BinaryMinimum": "sghash.models.sgh.variants.integer",
    "minimize_binary": "sghash.models.sgh.variants.integer",
    "spherical_hamming": "sghash.models.baselines.spherical",
}

# How often a model that is replaced while it is read is read again.
_ATTEMPTS = 20


def model_class(name: str) -> Any:
    """Return the class of the model called `name` in `MODELS`."""
    if name not in MODELS:
        raise InvalidInput(f"there is no model {name!r}: choose one of {', '.join(sorted(MODELS))}")
    return getattr(importlib.import_module(MODELS[name]), name)


def load_model(folder: str | Path) -> Any:
    """Read a fitted model of any class from `folder`."""
    path = Path(folder)
    for _ in range(_ATTEMPTS):
        before = _identity(path)
        try:
            return _load(path)
        except BadFile:
            # One file of the old model and one of the new, if it was saved anew just now.
            if before is not None and _identity(path) == before:
                raise
    return _load(path)


def _identity(folder: Path) -> list[tuple[int, ...]] | None:
    """What a folder and its files are: a number may be given again, but not with the same time."""
    try:
        found = [folder.stat(), *(file.stat() for file in sorted(folder.iterdir()))]
    except OSError:
        return None
    return [(one.st_dev, one.st_ino, one.st_ctime_ns) for one in found]


def _load(path: Path) -> Any:
    from sghash.models.late_estimator import reading_a_file
    from sghash.models.store import read_config, restore

    config = read_config(path)
    name = config.get("model")
    if not isinstance(name, str) or name not in MODELS:
        raise BadFile(f"{path} holds a model of unknown class {name!r}: upgrade sghash")
    # JSON knows no tuples, and options are no lists: as given, they show and compare as before.
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in config["options"].items()}
    try:
        with reading_a_file():
            model = model_class(name).from_saved_options(options)
    except TypeError as error:
        raise BadFile(f"{path}/config.json has options that {name} does not know") from error
    restore(model, path, config)
    return model


def __getattr__(name: str) -> Any:
    home = MODELS.get(name) or _FUNCTIONS.get(name)
    if home is None:
        raise AttributeError(f"module 'sghash.models' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *MODELS, *_FUNCTIONS})
