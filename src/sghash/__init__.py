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
        Recipe as Recipe,
    )
    from sghash.models.sgh.deep import (
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
    from sghash.neighbors import (
        Neighbors as Neighbors,
        RangeNeighbors as RangeNeighbors,
        merge_neighbors as merge_neighbors,
    )

__version__ = "0.1.0"

# Public name -> module that defines it.
_HOMES = {
    "BadFile": "sghash.errors",
    "BinaryAutoencoder": "sghash.models.baselines.binary_autoencoder",
    "BinaryMinimum": "sghash.models.sgh.variants.integer",
    "CATALOG": "sghash.data.catalog",
    "Collection": "sghash.collection",
    "DataSet": "sghash.data.dataset",
    "DeepSGH": "sghash.models.sgh.deep",
    "Diverged": "sghash.errors",
    "GenerativeQuantizer": "sghash.models.quantizers.generative",
    "GeneralSGH": "sghash.models.sgh.variants.general",
    "GraphHashing": "sghash.models.baselines.graph",
    "HammingIndex": "sghash.index",
    "ITQ": "sghash.models.baselines.itq",
    "InvalidDtype": "sghash.errors",
    "InvalidInput": "sghash.errors",
    "KMeansHashing": "sghash.models.baselines.kmeans",
    "LSH": "sghash.models.baselines.lsh",
    "METRICS": "sghash.evaluation.metrics",
    "MODELS": "sghash.models",
    "MissingData": "sghash.errors",
    "MissingExtra": "sghash.errors",
    "Neighbors": "sghash.neighbors",
    "NewerFormat": "sghash.errors",
    "PCAHashing": "sghash.models.baselines.pca",
    "PCAReconstruction": "sghash.models.quantizers.pca_reconstruction",
    "ProductQuantizer": "sghash.models.quantizers.product",
    "READERS": "sghash.data",
    "REFERENCE_MODELS": "sghash.models",
    "RangeNeighbors": "sghash.neighbors",
    "Recipe": "sghash.models.sgh",
    "SGH": "sghash.models.sgh",
    "ScaleInvariantSGH": "sghash.models.sgh.variants.scale_invariant",
    "SghashError": "sghash.errors",
    "SignHashing": "sghash.models.baselines.sign",
    "SpectralHashing": "sghash.models.baselines.spectral",
    "SphericalHashing": "sghash.models.baselines.spherical",
    "StorageError": "sghash.errors",
    "convert": "sghash.data.conversion",
    "evaluate": "sghash.evaluation.comparison",
    "ground_truth": "sghash.evaluation.truth",
    "load_dataset": "sghash.data.loading",
    "load_model": "sghash.models",
    "merge_neighbors": "sghash.neighbors",
    "minimize_binary": "sghash.models.sgh.variants.integer",
    "open_vectors": "sghash.data",
    "pack_bits": "sghash.bits",
    "spherical_hamming": "sghash.models.baselines.spherical",
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
