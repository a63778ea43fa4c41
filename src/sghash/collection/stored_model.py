"""The model inside a collection: stored beside the codes, checked before it is used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import blocks_of
from sghash.collection.storage.manifest import KEPT, Manifest, check_partitions, read_manifest
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import sha256_of, storage_errors
from sghash.validation import MAX_BITS, METRICS, Codes, Vectors, check_choice

FILES = ("config.json", "model.safetensors")
_BLOCK_ROWS = 1 << 20

# Codes of a model -> kind of the index that searches them.
_KINDS = {"bits": "hamming", "bytes": "tables"}


def check_codes_of(model: Any) -> str:
    """Return the kind of index for a model's codes; refuse a model that makes none."""
    from sghash.models.base import VectorModel

    known = isinstance(model, VectorModel)
    if not known or model.capabilities.codes not in _KINDS:
        raise InvalidInput(
            "a collection needs a fitted model whose codes are bits or bytes, got "
            f"{type(model).__name__}: use SGH, ITQ, GenerativeQuantizer or another of its kind"
        )
    return _KINDS[model.capabilities.codes]


def check_model(model: Any) -> str:
    """Return the kind of index for a model's codes; refuse one that is not fitted."""
    kind = check_codes_of(model)
    model.fingerprint_  # noqa: B018 - raises NotFittedError
    if model.code_bits > MAX_BITS:
        raise InvalidInput(
            f"codes have at most {MAX_BITS} bits, {type(model).__name__} makes {model.code_bits}: "
            "give it fewer"
        )
    return kind


def own_copy(model: Any) -> Any:
    """A copy for the collection: the caller's own may be fitted again, and make other codes."""
    check_model(model)
    # Who listens to its training is not the collection's affair, and may not be copied at all.
    listener = getattr(model, "callback", None)
    return copy.deepcopy(model, {id(listener): listener})


def first_manifest(
    model: Any, *, keep_vectors: str | None, metric: str | None, partitions: Any = None
) -> Manifest:
    """Check the options of a new collection, and say what it begins with."""
    kind = check_model(model)
    if keep_vectors is not None:
        check_choice(keep_vectors, KEPT, name="keep_vectors")
    metric = metric or model.metric or "l2"
    check_choice(metric, METRICS, name="metric")
    if kind == "tables":
        model.scorer(metric)  # says so if it cannot score this metric
    partitions = check_partitions(partitions)
    if partitions is not None and keep_vectors is None and not model.capabilities.tables:
        raise InvalidInput(
            f"lists need vectors, or a model with a decoder, which {type(model).__name__} has "
            'not: add keep_vectors="float16", or leave partitions out'
        )
    manifest = Manifest(
        kind=kind,
        n_bits=model.code_bits,
        width=model.n_features_in_,
        metric=metric,
        keep_vectors=keep_vectors,
        fingerprint=model.fingerprint_,
        model=model_folder(model),
        model_files={},
        log="log-00000000",
        partitions=partitions,
    )
    return replace(manifest, version=manifest.written_version)


def model_folder(model: Any) -> str:
    """Name of the folder for a model inside a collection."""
    return f"model-{model.fingerprint_[:16]}"


def describe_model(folder: Path) -> dict[str, Any]:
    """What the manifest says of a model's files: the SHA-256 of each, and their size."""
    with storage_errors(folder, doing="read"):
        return {
            "model_files": {name: sha256_of(folder / name) for name in FILES},
            "model_bytes": sum((folder / name).stat().st_size for name in FILES),
        }


def verify_model(folder: Path, manifest: Manifest) -> None:
    """Raise `BadFile` unless the model's files are those the manifest knows."""
    for name in FILES:
        path = folder / manifest.model / name
        with storage_errors(path, doing="read"):
            try:
                found = sha256_of(path)
            except FileNotFoundError as error:
                raise BadFile(f"{path} is missing: restore it from a copy") from error
        if found != manifest.model_files.get(name):
            raise BadFile(f"{path} is damaged: its checksum fails; restore it from a copy")


def load_checked(folder: Path, manifest: Manifest) -> Any:
    """Read the model of a collection."""
    from sghash.models import load_model

    path = folder / manifest.model
    try:
        with storage_errors(path, doing="read"):
            verify_model(folder, manifest)
            model = load_model(path)
    except (BadFile, StorageError) as error:
        if read_manifest(folder).model == manifest.model:
            raise
        raise StorageError(
            f"{folder} was given another model since it was opened here: call refresh()"
        ) from error
    if not _made_the_codes(model, manifest):
        raise BadFile(
            f"{path} is not the model that the codes were made with: restore it from a copy"
        )
    return model


def _made_the_codes(model: Any, manifest: Manifest) -> bool:
    """Whether a model makes codes of the kind and size that a manifest says, for its metric."""
    try:
        kind = check_model(model)
        if kind == "tables":
            model.scorer(manifest.metric)
    except InvalidInput:
        return False
    found = kind, model.code_bits, model.n_features_in_, model.fingerprint_
    return found == (manifest.kind, manifest.n_bits, manifest.width, manifest.fingerprint)


def check_values(model: Any, codes: Codes) -> None:
    """Refuse codes with a byte that names no row of the model's tables.

    Bytes mean something each by itself: the model is asked about every value that occurs, in at
    most 256 codes put together of them.
    """
    if model.capabilities.codes != "bytes" or not len(codes):
        return
    occurs = np.zeros((codes.shape[1], 256), dtype=np.bool_)
    for _, block in blocks_of(codes, _BLOCK_ROWS):
        for place, column in enumerate(np.asarray(block).T):
            occurs[place, column] = True
    columns = [np.flatnonzero(values) for values in occurs]
    n_values = max(map(len, columns))
    model.decode(np.stack([np.resize(c, n_values) for c in columns], axis=1).astype(np.uint8))


class CheckedVectors(NamedTuple):
    """Checked vectors (n, d) as a source, which a model reads without checking them again."""

    array: Vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their width."""
        return len(self.array), self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.array.dtype

    def read(self, start: int, stop: int) -> Vectors:
        """Rows `start` to `stop` - 1."""
        return self.array[start:stop]


def encode_queries(model: Any, queries: Vectors) -> Codes:
    """Codes of queries that have been checked; scikit-learn's checks would outlast a search."""
    codes: Codes = model.encode(CheckedVectors(queries))
    return codes


def encoder_of(model: Any) -> Callable[[NDArray[Any]], Codes]:
    """What makes codes of kept vectors, of whatever type they are kept in."""

    def encode(block: NDArray[Any]) -> Codes:
        from sghash.kernels.vectors.stored import as_vectors

        codes: Codes = model.encode(as_vectors(block, model.n_features_in_))
        return codes

    return encode


def place_new_model(folder: Path, manifest: Manifest, model: Any) -> dict[str, Any]:
    """Store a model that shall replace the present one; return what the manifest must then say."""
    kind = check_model(model)
    if kind == "tables":
        model.scorer(manifest.metric)
    if manifest.keep_vectors is None:
        raise InvalidInput(
            "no vectors are kept here, and codes cannot be made of codes: create a new "
            "collection with the new model and add the vectors again"
        )
    if model.n_features_in_ != manifest.width:
        raise InvalidInput(
            f"the new model takes vectors of {model.n_features_in_} columns, "
            f"the collection keeps {manifest.width}"
        )
    name = model_folder(model)
    if name != manifest.model:
        model.save(folder / name, overwrite=True)
    return {
        "kind": kind,
        "n_bits": model.code_bits,
        "fingerprint": model.fingerprint_,
        "model": name,
        "plan": None,  # it was measured with other codes
        **describe_model(folder / name),
    }
