"""Learned binary codes for vectors, and exact search over them.

Names resolve when first used: importing the package loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `__getattr__` resolves, for type checkers and editors
    from sghash.bits import (
        pack_bits as pack_bits,
        unpack_bits as unpack_bits,
    )
    from sghash.collection import (
        Collection as Collection,
    )
    from sghash.data import (
        READERS as READERS,
        open_vectors as open_vectors,
    )
    from sghash.data.catalog import (
        CATALOG as CATALOG,
    )
    from sghash.data.conversion import (
        convert as convert,
    )
    from sghash.data.dataset import (
        DataSet as DataSet,
    )
    from sghash.data.loading import (
        load_dataset as load_dataset,
    )
    from sghash.errors import (
        BadFile as BadFile,
        Diverged as Diverged,
        InvalidDtype as InvalidDtype,
        InvalidInput as InvalidInput,
        MissingData as MissingData,
        MissingExtra as MissingExtra,
        NewerFormat as NewerFormat,
        SghashError as SghashError,
        StorageError as StorageError,
    )
    from sghash.evaluation.comparison import (
        evaluate as evaluate,
    )
    from sghash.evaluation.metrics import (
        METRICS as METRICS,
    )
    from sghash.evaluation.truth import (
        ground_truth as ground_truth,
    )
    from sghash.index import (
        HammingIndex as HammingIndex,
    )
    from sghash.models import (
        MODELS as MODELS,
        REFERENCE_MODELS as REFERENCE_MODELS,
        load_model as load_model,
    )
    from sghash.models.binary_autoencoder import (
        BinaryAutoencoder as BinaryAutoencoder,
    )
    from sghash.models.deep import (
        DeepSGH as DeepSGH,
    )
    from sghash.models.general_sgh import (
        GeneralSGH as GeneralSGH,
    )
    from sghash.models.generative_quantizer import (
        GenerativeQuantizer as GenerativeQuantizer,
    )
    from sghash.models.graph_hashing import (
        GraphHashing as GraphHashing,
    )
    from sghash.models.integer import (
        BinaryMinimum as BinaryMinimum,
        minimize_binary as minimize_binary,
    )
    from sghash.models.itq import (
        ITQ as ITQ,
    )
    from sghash.models.kmeans_hashing import (
        KMeansHashing as KMeansHashing,
    )
    from sghash.models.lsh import (
        LSH as LSH,
    )
    from sghash.models.pca_hashing import (
        PCAHashing as PCAHashing,
    )
    from sghash.models.pca_reconstruction import (
        PCAReconstruction as PCAReconstruction,
    )
    from sghash.models.product_quantizer import (
        ProductQuantizer as ProductQuantizer,
    )
    from sghash.models.scale_invariant import (
        ScaleInvariantSGH as ScaleInvariantSGH,
    )
    from sghash.models.sgh import (
        SGH as SGH,
    )
    from sghash.models.sign_hashing import (
        SignHashing as SignHashing,
    )
    from sghash.models.spectral_hashing import (
        SpectralHashing as SpectralHashing,
    )
    from sghash.models.spherical_hashing import (
        SphericalHashing as SphericalHashing,
        spherical_hamming as spherical_hamming,
    )
    from sghash.neighbors import (
        Neighbors as Neighbors,
        RangeNeighbors as RangeNeighbors,
        merge_neighbors as merge_neighbors,
    )

__version__ = "0.1.0"

# Public name -> module that defines it.
_HOMES = {
    "BadFile": "sghash.errors",
    "BinaryAutoencoder": "sghash.models.binary_autoencoder",
    "BinaryMinimum": "sghash.models.integer",
    "CATALOG": "sghash.data.catalog",
    "Collection": "sghash.collection",
    "DataSet": "sghash.data.dataset",
    "DeepSGH": "sghash.models.deep",
    "Diverged": "sghash.errors",
    "GenerativeQuantizer": "sghash.models.generative_quantizer",
    "GeneralSGH": "sghash.models.general_sgh",
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
    "ScaleInvariantSGH": "sghash.models.scale_invariant",
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
    "minimize_binary": "sghash.models.integer",
    "open_vectors": "sghash.data",
    "pack_bits": "sghash.bits",
    "spherical_hamming": "sghash.models.spherical_hashing",
    "unpack_bits": "sghash.bits",
}


__all__ = [
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
