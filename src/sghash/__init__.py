"""Learned binary codes for vectors, and exact search over them.

Names resolve when first used: importing the package loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_HOMES = {
    "BadFile": "sghash.errors",
    "BinaryAutoencoder": "sghash.models.binary_autoencoder",
    "CATALOG": "sghash.data.catalog",
    "Collection": "sghash.collection",
    "DataSet": "sghash.data.dataset",
    "Diverged": "sghash.errors",
    "GraphHashing": "sghash.models.graph_hashing",
    "HammingIndex": "sghash.index",
    "ITQ": "sghash.models.itq",
    "InvalidDtype": "sghash.errors",
    "InvalidInput": "sghash.errors",
    "KMeansHashing": "sghash.models.kmeans_hashing",
    "LSH": "sghash.models.lsh",
    "METRICS": "sghash.evaluation.metrics",
    "MODELS": "sghash.models",
    "MissingData": "sghash.errors",
    "MissingExtra": "sghash.errors",
    "Neighbors": "sghash.neighbors",
    "NewerFormat": "sghash.errors",
    "PCAHashing": "sghash.models.pca_hashing",
    "PCAReconstruction": "sghash.models.pca_reconstruction",
    "ProductQuantizer": "sghash.models.product_quantizer",
    "READERS": "sghash.data",
    "REFERENCE_MODELS": "sghash.models",
    "RangeNeighbors": "sghash.neighbors",
    "SGH": "sghash.models.sgh",
    "SghashError": "sghash.errors",
    "SignHashing": "sghash.models.sign_hashing",
    "SpectralHashing": "sghash.models.spectral_hashing",
    "SphericalHashing": "sghash.models.spherical_hashing",
    "StorageError": "sghash.errors",
    "convert": "sghash.data.conversion",
    "evaluate": "sghash.evaluation.comparison",
    "ground_truth": "sghash.evaluation.truth",
    "load_dataset": "sghash.data.loading",
    "load_model": "sghash.models",
    "merge_neighbors": "sghash.neighbors",
    "open_vectors": "sghash.data",
    "pack_bits": "sghash.bits",
    "spherical_hamming": "sghash.models.spherical_hashing",
    "unpack_bits": "sghash.bits",
}

__all__ = [  # noqa: PLE0604
    *_HOMES,
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sghash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
