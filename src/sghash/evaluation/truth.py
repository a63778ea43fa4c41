"""The true neighbours: computed once by the exact kernel, kept by the content they belong to."""

from __future__ import annotations

import hashlib
import logging
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource
from sghash.data.folders import cache_folder
from sghash.data.sources import content_hash
from sghash.errors import InvalidInput
from sghash.files import write_atomically
from sghash.kernels import exact_neighbors
from sghash.neighbors import PADDING_ID, Neighbors
from sghash.validation import METRICS, check_choice, check_k, check_vectors

_log = logging.getLogger(__name__)
_SPARE = 16
_MOST_TIES = 1024
_VERSION = 1


def ground_truth(
    vectors: VectorSource | NDArray[Any],
    queries: ArrayLike | VectorSource,
    k: int,
    *,
    metric: str = "l2",
    threads: int | None = None,
    cache: Path | None = None,
) -> Neighbors:
    """The k true neighbours of each query, and every further row that is as near as the k-th.

    Returns `Neighbors` of k columns or more. Beyond column k stand only rows tied with the k-th
    neighbour, the rest is padding (id -1): whoever finds k of them has found k true neighbours.

    Parameters
    ----------
    vectors : VectorSource or array (n, d)
        What is searched; may exceed memory.
    queries : array or VectorSource (m, d)
        What is looked up.
    k : int
        Neighbours per query; at most n.
    metric : "l2", "ip" or "cosine"
        Distances are squared Euclidean, negative inner product, 1 - cosine.
    threads : int or None
        None uses all cores.
    cache : folder or None
        Where results are kept by the hash of vectors, queries, k and metric; None keeps nothing.
        `truth_folder()` is the usual one.
    """
    check_k(k)
    check_choice(metric, METRICS, name="metric")
    if k > vectors.shape[0]:
        raise InvalidInput(f"k is {k}, there are only {vectors.shape[0]} vectors: ask for fewer")
    rows = check_vectors(np.asarray(queries), width=vectors.shape[1], name="queries")
    if cache is None:
        return _search(vectors, rows, k, metric, threads)
    path = cache / f"{_key(vectors, rows, k, metric)}.npz"
    known = _read(path, len(rows), k)
    if known is not None:
        return known
    found = _search(vectors, rows, k, metric, threads)
    cache.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda stream: _write(stream, found))
    return found


def truth_folder() -> Path:
    """The usual place for ground truth: in SGHASH_CACHE, else in the user's cache folder."""
    return cache_folder() / "ground_truth"


def _search(
    vectors: VectorSource | NDArray[Any],
    queries: NDArray[np.float32],
    k: int,
    metric: str,
    threads: int | None,
) -> Neighbors:
    n, depth = vectors.shape[0], k + _SPARE
    while True:
        depth = min(depth, n)
        found = exact_neighbors(vectors, queries, depth, metric=metric, threads=threads)
        tied = found.distances <= found.distances[:, k - 1 : k]
        if depth == n or depth >= k + _MOST_TIES or not tied[:, -1].any():
            break
        # Rows as near as the k-th go on beyond what was asked for: look deeper.
        depth = k + 8 * (depth - k)
    width = max(k, int(tied.sum(axis=1).max(initial=0)))
    distances = np.where(tied, found.distances, np.float32(np.inf))[:, :width]
    return Neighbors(distances, np.where(tied, found.ids, PADDING_ID)[:, :width])


def _key(
    vectors: VectorSource | NDArray[Any], queries: NDArray[np.float32], k: int, metric: str
) -> str:
    parts = (str(_VERSION), content_hash(vectors), content_hash(queries), str(k), metric)
    return hashlib.sha256(":".join(parts).encode()).hexdigest()


def _read(path: Path, n_queries: int, k: int) -> Neighbors | None:
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            known = Neighbors(archive["distances"], archive["ids"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.warning("%s is damaged (%s): computing it again", path, error)
        return None
    shape = known.ids.shape
    if known.distances.shape != shape or shape[0] != n_queries or shape[1] < k:
        _log.warning("%s has shape %s: computing it again", path, shape)
        return None
    return known


def _write(stream: BinaryIO, found: Neighbors) -> None:
    np.savez(stream, distances=found.distances, ids=found.ids)
