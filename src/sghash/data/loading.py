"""From a name to a `DataSet`: find the files, fetch what is missing, check, open."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sghash.data import builtin, open_vectors
from sghash.data.catalog import CATALOG, Entry, Variant
from sghash.data.checking import RemoteFile, verify
from sghash.data.dataset import DataSet
from sghash.data.download import ByteProgress, download
from sghash.data.folders import cache_folder, data_folders
from sghash.data.readers import bigann, idx, images, npz, word2vec
from sghash.data.sources import ArraySource, RowSource, ScaledSource
from sghash.errors import BadFile, InvalidInput, MissingData
from sghash.progress import counting

_log = logging.getLogger(__name__)

#: Data sets that are always here.
BUILT_IN: dict[str, Callable[[], DataSet]] = {
    "sentences": builtin.sentences,
    "digits": builtin.digits,
    "gaussian": builtin.gaussian,
    "clusters": builtin.clusters,
}


def load_dataset(
    name: str, *, fetch: bool = True, callback: ByteProgress | Literal["bar"] | None = None
) -> DataSet:
    """Open the data set called `name`: built in, in the folder SGHASH_DATA, or downloaded.

    Parameters
    ----------
    name : str
        A name in `CATALOG`, or one of `BUILT_IN`, which are always here: "sentences", "digits",
        "gaussian", "clusters".
    fetch : bool
        Download what is not here (to SGHASH_CACHE, else the user's cache folder).
    callback : callable(bytes_done, bytes_total), "bar" or None
        Told how far a download is.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name not in CATALOG:
        listed = ", ".join(sorted([*CATALOG, *BUILT_IN]))
        raise InvalidInput(f"there is no data set {name!r}: choose one of {listed}")
    entry = CATALOG[name]
    variant, paths = _files(name, entry, fetch, counting(callback, "fetching", "B"))
    parts = LOADERS[variant.loader](entry, paths)
    for what, expected in (("base", entry.base), ("queries", entry.queries)):
        if parts[what].shape != expected:
            found = parts[what].shape
            raise BadFile(f"{paths[0]}: the {what} have shape {found}, expected {expected}")
    return DataSet(
        name=name, metric=entry.metric, about=entry.about, licence=entry.licence, **parts
    )


def find_files(name: str, files: tuple[RemoteFile, ...]) -> list[Path] | None:
    """Paths of all `files` of the set `name` in the folders we search, or None."""
    paths = [_find(name, file) for file in files]
    return None if None in paths else [path for path in paths if path is not None]


def _find(name: str, file: RemoteFile) -> Path | None:
    for folder in data_folders():
        for path in (folder / name / file.name, folder / file.name):
            if not path.is_file():
                continue
            # Several sets call their files alike: the size tells them apart.
            if file.size is None or path.stat().st_size == file.size:
                return path
            _log.warning("%s is not the file of %s: expected %d bytes", path, name, file.size)
    return None


def _files(
    name: str, entry: Entry, fetch: bool, callback: ByteProgress | None
) -> tuple[Variant, list[Path]]:
    for variant in entry.variants:
        paths = find_files(name, variant.files)
        if paths is not None:
            for path, file in zip(paths, variant.files, strict=True):
                verify(path, file)
            return variant, paths
    public = [v for v in entry.variants if all(file.url for file in v.files)]
    if not public:
        wanted = " or ".join(v.files[0].name for v in entry.variants)
        raise MissingData(
            f"{name} is not here and has no public address: set SGHASH_DATA to the folder "
            f"that holds {wanted}"
        )
    if not fetch:
        raise MissingData(_where_to_put(name, public[0], "and downloads are not allowed"))
    try:
        paths = [_fetched(name, file, callback) for file in public[0].files]
    except MissingData as error:
        reason = f"and could not be downloaded ({error})"
        raise MissingData(_where_to_put(name, public[0], reason)) from error
    return public[0], paths


def _fetched(name: str, file: RemoteFile, callback: ByteProgress | None) -> Path:
    found = _find(name, file)
    if found is not None:
        verify(found, file)
        return found
    return download(file, cache_folder() / "data" / name / file.name, callback=callback)


def _where_to_put(name: str, variant: Variant, reason: str) -> str:
    addresses = {str(file.url).removesuffix(file.name) for file in variant.files}
    if len(addresses) == 1 < len(variant.files):
        # One address for all: a sentence that can be read.
        listed = f"{', '.join(file.name for file in variant.files)} from {addresses.pop()}"
    else:
        listed = ", ".join(f"{file.name} from {file.url}" for file in variant.files)
    return f"{name} is not here {reason}: put {listed} into the folder that SGHASH_DATA names"


def _load_npz(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    (path,) = paths
    keys = npz.read_keys(path)
    parts: dict[str, Any] = {
        "base": open_vectors(path, key="base"),
        "queries": open_vectors(path, key="query"),
    }
    if "scale" in keys:
        factor = float(npz.read_number(path, "scale"))
        parts = {what: ScaledSource(source, factor) for what, source in parts.items()}
    for key in keys & {"base_labels", "query_labels"}:
        parts[key] = npz.read_array(path, key)
    for side in ("base", "query"):
        for kind in keys & {f"{side}_words", f"{side}_texts"}:
            parts[f"{side}_texts"] = str(npz.read_array(path, kind)).split("\n")
    return parts


def _load_mnist_npz(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    (path,) = paths
    return {
        "base": open_vectors(path, key="train"),
        "queries": open_vectors(path, key="test"),
        "base_labels": npz.read_array(path, "train_labels"),
        "query_labels": npz.read_array(path, "test_labels"),
    }


def _load_idx(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    train, train_labels, test, test_labels = paths
    return {
        "base": open_vectors(train),
        "queries": open_vectors(test),
        "base_labels": idx.read_labels(train_labels),
        "query_labels": idx.read_labels(test_labels),
    }


def _load_cifar(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    return images.read_cifar_archive(paths[0])


def _load_jpeg(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    (path,) = paths
    rows, labels = images.JpegRows(path), npz.read_array(path, "labels")
    n_train = int(npz.read_number(path, "n_train"))
    return {
        "base": rows.rows(0, n_train),
        "queries": rows.rows(n_train),
        "base_labels": labels[:n_train],
        "query_labels": labels[n_train:],
    }


def _load_hdf5(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    (path,) = paths
    hdf5 = importlib.import_module("sghash.data.readers.hdf5")
    stated = hdf5.read_metric(path)
    if stated is not None and stated != entry.metric:
        raise BadFile(f"{path} is made for the metric {stated!r}, expected {entry.metric!r}")
    return {
        "base": open_vectors(path, key="train"),
        "queries": open_vectors(path, key="test"),
        "neighbors": open_vectors(path, key="neighbors"),
    }


def _load_texmex(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    return {"base": open_vectors(paths[0]), "queries": open_vectors(paths[1])}


def _load_bigann(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    base, asked, truth = paths
    queries = open_vectors(asked)
    return {
        "base": open_vectors(base, stop=entry.base[0]),
        "queries": queries,
        "neighbors": bigann.open_neighbors(truth, queries.shape[0]),
    }


def _load_word2vec(entry: Entry, paths: list[Path]) -> dict[str, Any]:
    n, m = entry.base[0], entry.queries[0]
    words, vectors = word2vec.read_words(paths[0], n + m)
    order = np.random.default_rng(0).permutation(n + m)
    base, queries = np.sort(order[m:]), np.sort(order[:m])
    sources: dict[str, RowSource] = {
        "base": ArraySource(vectors[base]),
        "queries": ArraySource(vectors[queries]),
    }
    texts = {
        "base_texts": [words[row] for row in base],
        "query_texts": [words[row] for row in queries],
    }
    return {**sources, **texts}


#: Name of a loader in the catalog -> function(entry, paths) that opens base and queries.
LOADERS: dict[str, Callable[[Entry, list[Path]], dict[str, Any]]] = {
    "npz": _load_npz,
    "mnist_npz": _load_mnist_npz,
    "idx": _load_idx,
    "cifar": _load_cifar,
    "jpeg": _load_jpeg,
    "hdf5": _load_hdf5,
    "texmex": _load_texmex,
    "bigann": _load_bigann,
    "word2vec": _load_word2vec,
}
