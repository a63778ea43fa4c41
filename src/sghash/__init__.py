"""Learned codes for vectors, and search over them.

The names most people need; the others are imported from their modules (`sghash.models.LSH`,
`sghash.data.CATALOG`). Names resolve when first used: importing the package loads neither Numba
nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `__getattr__` resolves, for type checkers and editors
    from sghash import (
        bits as bits,
        collection as collection,
        data as data,
        errors as errors,
        evaluation as evaluation,
        index as index,
        models as models,
        neighbors as neighbors,
        plots as plots,
        report as report,
    )
    from sghash.bits import (
        pack_bits as pack_bits,
        unpack_bits as unpack_bits,
    )
    from sghash.client import (
        connect as connect,
    )
    from sghash.collection import (
        Collection as Collection,
    )
    from sghash.data import (
        open_vectors as open_vectors,
    )
    from sghash.data.conversion import (
        convert as convert,
    )
    from sghash.data.loading import (
        load_dataset as load_dataset,
    )
    from sghash.errors import (
        BadFile as BadFile,
        InvalidInput as InvalidInput,
        MissingData as MissingData,
        MissingExtra as MissingExtra,
        SghashError as SghashError,
        StorageError as StorageError,
    )
    from sghash.evaluation.comparison import (
        evaluate as evaluate,
    )
    from sghash.evaluation.truth import (
        ground_truth as ground_truth,
    )
    from sghash.index import (
        HammingIndex as HammingIndex,
        PartitionedIndex as PartitionedIndex,
        TableIndex as TableIndex,
    )
    from sghash.models import (
        MODELS as MODELS,
        load_model as load_model,
    )
    from sghash.models.baselines.itq import (
        ITQ as ITQ,
    )
    from sghash.models.quantizers.generative import (
        GenerativeQuantizer as GenerativeQuantizer,
    )
    from sghash.models.quantizers.product import (
        ProductQuantizer as ProductQuantizer,
    )
    from sghash.models.sgh import (
        SGH as SGH,
        Recipe as Recipe,
    )
    from sghash.neighbors import (
        Neighbors as Neighbors,
        RangeNeighbors as RangeNeighbors,
        merge_neighbors as merge_neighbors,
    )

__version__ = "0.2.0"

# Public name -> module that defines it.
_HOMES = {
    "BadFile": "sghash.errors",
    "Collection": "sghash.collection",
    "GenerativeQuantizer": "sghash.models.quantizers.generative",
    "HammingIndex": "sghash.index",
    "ITQ": "sghash.models.baselines.itq",
    "InvalidInput": "sghash.errors",
    "MODELS": "sghash.models",
    "MissingData": "sghash.errors",
    "MissingExtra": "sghash.errors",
    "Neighbors": "sghash.neighbors",
    "ProductQuantizer": "sghash.models.quantizers.product",
    "RangeNeighbors": "sghash.neighbors",
    "Recipe": "sghash.models.sgh",
    "SGH": "sghash.models.sgh",
    "SghashError": "sghash.errors",
    "StorageError": "sghash.errors",
    "PartitionedIndex": "sghash.index",
    "TableIndex": "sghash.index",
    "connect": "sghash.client",
    "convert": "sghash.data.conversion",
    "evaluate": "sghash.evaluation.comparison",
    "ground_truth": "sghash.evaluation.truth",
    "load_dataset": "sghash.data.loading",
    "load_model": "sghash.models",
    "merge_neighbors": "sghash.neighbors",
    "open_vectors": "sghash.data",
    "pack_bits": "sghash.bits",
    "unpack_bits": "sghash.bits",
}

# Modules that hold the other names.
_MODULES = (
    "bits",
    "collection",
    "data",
    "errors",
    "evaluation",
    "index",
    "models",
    "neighbors",
    "plots",
    "report",
)

# Names that stood here once -> where they are.
_MOVED = {
    "BinaryAutoencoder": "sghash.models.BinaryAutoencoder",
    "BinaryMinimum": "sghash.models.BinaryMinimum",
    "CATALOG": "sghash.data.CATALOG",
    "DataSet": "sghash.data.DataSet",
    "DeepSGH": "sghash.models.DeepSGH",
    "Diverged": "sghash.errors.Diverged",
    "GeneralSGH": "sghash.models.GeneralSGH",
    "GraphHashing": "sghash.models.GraphHashing",
    "InvalidDtype": "sghash.errors.InvalidDtype",
    "KMeansHashing": "sghash.models.KMeansHashing",
    "LSH": "sghash.models.LSH",
    "METRICS": "sghash.evaluation.METRICS",
    "NewerFormat": "sghash.errors.NewerFormat",
    "PCAHashing": "sghash.models.PCAHashing",
    "PCAReconstruction": "sghash.models.PCAReconstruction",
    "READERS": "sghash.data.READERS",
    "REFERENCE_MODELS": "sghash.models.MODELS",
    "ScaleInvariantSGH": "sghash.models.ScaleInvariantSGH",
    "SignHashing": "sghash.models.SignHashing",
    "SpectralHashing": "sghash.models.SpectralHashing",
    "SphericalHashing": "sghash.models.SphericalHashing",
    "minimize_binary": "sghash.models.minimize_binary",
    "spherical_hamming": "sghash.models.spherical_hamming",
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
    if name in _MODULES:
        return importlib.import_module(f"sghash.{name}")
    if name in _MOVED:
        raise AttributeError(f"sghash.{name} is now {_MOVED[name]}")
    raise AttributeError(f"module 'sghash' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
