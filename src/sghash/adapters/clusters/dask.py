"""Dask: fit, encode, build and search on the workers of a client that the caller brings.

    from dask.distributed import Client
    from sghash.adapters.clusters import dask as on_dask

    with Client("tcp://scheduler:8786") as client:
        collection = on_dask.build_collection("vectors/", "codes", client=client)
        found = on_dask.search("codes", queries, 10, client=client)

Workers need the same version of sghash, and must see the files and the folder of the collection
under the same paths. Nothing is started or stopped here but tasks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.adapters.clusters.batches import folders_of
from sghash.adapters.clusters.blocks import (
    encode_block,
    file_blocks,
    missing_here,
    rows_of_array,
    rows_of_file,
    shard_kinds,
    shard_share,
)
from sghash.adapters.clusters.building import (
    BLOCK_ROWS,
    SAMPLE_ROWS,
    Request,
    build,
    chosen_rows,
)
from sghash.collection import Collection, Staged, Task, encode_part
from sghash.collection.jobs.tasks import Source
from sghash.collection.shards.asking import Share, Wanted, check_one_moment, merged
from sghash.collection.shards.joining import joined_kinds
from sghash.collection.storage.folders import named_missing
from sghash.errors import InvalidInput, MissingData
from sghash.neighbors import Neighbors
from sghash.optional import require
from sghash.progress import Callback, counting
from sghash.validation import Vectors, check_count, check_k, check_vectors

_log = logging.getLogger("sghash.adapters")
_QUERY_ROWS = 4096


def fit(
    vectors: Any,
    model: Any = None,
    *,
    client: Any,
    key: str | None = None,
    n_rows: int = SAMPLE_ROWS,
    random_state: int = 0,
) -> Any:
    """Fit a model here, on a random sample of rows that the workers read.

    `vectors` are a Dask array (n, d), a bag of vectors, or files as for `open_vectors`. Which rows
    are taken depends on `random_state` alone, not on the workers. None is `SGH()`.
    """
    from sghash.models.sgh import SGH

    _check_client(client)
    check_count(n_rows, name="n_rows", least=2)
    sample = sample_rows(vectors, n_rows, client=client, key=key, random_state=random_state)
    chosen = SGH(random_state=random_state) if model is None else model
    return chosen.fit(sample)


def sample_rows(
    vectors: Any, n_rows: int, *, client: Any, key: str | None = None, random_state: int = 0
) -> Vectors:
    """At most `n_rows` random rows, in their order, read where they lie."""
    lengths, blocks, read = _blocks_of(vectors, key, client)
    limits = np.cumsum([0, *lengths])
    n = int(limits[-1])
    if not n:
        raise InvalidInput("there are no vectors to learn from: give at least two rows")
    rows = chosen_rows(n, n_rows, random_state)
    cuts = np.searchsorted(rows, limits)
    futures = [
        client.submit(read, block, rows[cuts[i] : cuts[i + 1]] - limits[i], pure=False)
        for i, block in enumerate(blocks)
        if cuts[i] < cuts[i + 1]
    ]
    return np.concatenate(_gathered(client, futures))


def encode(vectors: Any, model: Any, *, client: Any) -> Any:
    """Codes of a Dask array (n, d) as a Dask array, or of a bag of vectors as a bag; lazily."""
    from sghash import __version__

    _check_client(client)
    model.fingerprint_  # noqa: B018 - raises NotFitted
    if _is_bag(vectors):
        return vectors.map_partitions(encode_block, model, __version__)
    table = _table(vectors)
    chunks = table.chunks[0], (model.code_columns,)
    return table.map_blocks(encode_block, model, __version__, dtype=np.uint8, chunks=chunks)


def build_collection(
    source: Source,
    path: str | os.PathLike[str],
    *,
    client: Any,
    model: Any = None,
    job: str = "build",
    key: str | None = None,
    keys: str | None = None,
    metadata: Sequence[str] = (),
    rows_per_part: int = BLOCK_ROWS,
    first: int | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Collection:
    """Encode files on the workers and make them visible in one step; return the open collection.

    A collection that stands at `path` is added to, with its own model; else one is created, for
    `model` or one fitted on a sample, with `options` of `Collection.create`; they may be repeated,
    and others than the collection has are refused. `key`, `keys`,
    `metadata` and `first` are those of `Collection.prepare`. Ids follow the files' names, then the
    rows.
    Whatever fails or is interrupted leaves the rows as they were; the same call goes on with the
    parts that are done (`Collection.discard(job)` gives them up), and a second call changes
    nothing. `callback` receives (rows done, rows in all).
    """
    _check_client(client)
    told = counting(callback, "encoding")

    def run(tasks: list[Task]) -> list[Staged]:
        futures = [client.submit(encode_part, task, pure=False) for task in tasks]
        sizes = {f.key: task.stop - task.start for f, task in zip(futures, tasks, strict=True)}
        return _gathered(client, futures, told, sizes)

    request = Request(source, job, key, keys, metadata, rows_per_part, first)
    fitted = partial(fit, source, client=client, key=key)
    return build(path, request, run, model=model, fitted=fitted, options=options)


def search(
    shards: Any,
    queries: ArrayLike,
    k: int = 10,
    *,
    client: Any,
    rerank: str | None = None,
    shortlist: Any = None,
    target_recall: float | None = None,
    where: str | None = None,
    threads: int | None = 1,
    allow_partial: bool = False,
    callback: Callback | None = None,
) -> Neighbors:
    """What one process would answer that had all shards open, each searched by some worker.

    `shards` is a collection or the path of one, or several; options are those of
    `Collection.search`. `where` must be a condition. A shard is searched by workers that find it;
    one that nobody finds is refused by name; with `allow_partial` the others answer, and a
    warning says so. `callback` receives (searches done, searches in all).
    """
    from sghash import __version__

    _check_client(client)
    if where is not None and not isinstance(where, str):
        raise InvalidInput('where must be a condition such as "year > 2000": ids stay here')
    folders, array = folders_of(shards), check_vectors(queries, name="queries")
    places, reasons = _places(client, folders)
    kinds = {} if where is None else _kinds(client, folders, places)
    wanted = Wanted(check_k(k), rerank, shortlist, target_recall, where, kinds)
    blocks = [array[s : s + _QUERY_ROWS] for s in range(0, max(1, len(array)), _QUERY_ROWS)]
    futures = [
        client.submit(
            shard_share, folder, block, wanted, __version__, threads, pure=False,
            workers=places[folder],
        )
        for block in blocks
        for folder in folders
    ]  # fmt: skip
    told = counting(callback, "searching", "search")
    found: list[Share | None] = _gathered(client, futures, told)
    present = _present(found, folders, reasons, allow_partial)
    check_one_moment(present)
    rows = [found[i : i + len(folders)] for i in range(0, len(found), len(folders))]
    parts = [merged([s for s in row if s is not None], k) for row in rows]
    return Neighbors(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


def _places(client: Any, folders: list[str]) -> tuple[dict[str, list[str] | None], dict[str, str]]:
    """Workers that find each folder, None where any will do; and why others do not find it."""
    # One that does not answer is no hindrance: what it is asked later says what is wrong.
    answers: dict[str, dict[str, str]] = client.run(missing_here, folders, on_error="ignore")
    places: dict[str, list[str] | None] = {}
    for folder in folders:
        able = [worker for worker, missing in answers.items() if folder not in missing]
        places[folder] = able if 0 < len(able) < len(answers) else None
    return places, {name: why for missing in answers.values() for name, why in missing.items()}


def _kinds(
    client: Any, folders: list[str], places: Mapping[str, list[str] | None]
) -> dict[str, str]:
    """The kinds of all columns that any shard has."""
    from sghash import __version__

    asked = [
        client.submit(shard_kinds, folder, __version__, pure=False, workers=places[folder])
        for folder in folders
    ]
    found = _gathered(client, asked)
    return joined_kinds([kinds or {} for kinds in found], folders)


def _present(
    found: list[Share | None], folders: list[str], reasons: Mapping[str, str], allow_partial: bool
) -> list[Share]:
    """The shares that came; refuse if a shard is missing, or say so."""
    present = [share for share in found if share is not None]
    n = len(folders)
    missing = sorted({folders[i % n] for i, share in enumerate(found) if share is None})
    named = named_missing({folder: reasons.get(folder) for folder in missing})
    partly = {share.shard for share in present} & set(missing)
    if missing and (not allow_partial or partly or len(missing) == n):
        raise MissingData(
            f"{len(missing)} of {n} shards are not there for the workers: {named}; let some worker "
            "see each shard, or answer without them by allow_partial=True"
        )
    if missing:
        _log.warning("%d of %d shards are not there: %s", len(missing), n, named)
    return present


def _gathered(
    client: Any,
    futures: list[Any],
    told: Callable[[int, int], None] | None = None,
    sizes: dict[str, int] | None = None,
) -> list[Any]:
    """Results in the order of the futures; whatever fails or interrupts cancels the others."""
    as_completed = require("distributed", extra="dask").as_completed
    weights = sizes or {future.key: 1 for future in futures}
    done, total = 0, sum(weights.values())
    try:
        for future in as_completed(futures):
            future.result()  # raises what the worker raised
            done += weights[future.key]
            if told is not None:
                told(done, total)
        results: list[Any] = client.gather(futures)
    except BaseException:
        client.cancel(futures, force=True)
        raise
    return results


def _blocks_of(
    vectors: Any, key: str | None, client: Any
) -> tuple[list[int], list[Any], Callable[[Any, NDArray[np.int64]], Vectors]]:
    """Lengths of the blocks that vectors lie in, the blocks, and what reads rows of one."""
    if isinstance(vectors, (str, os.PathLike)) or _are_paths(vectors):
        files = file_blocks(vectors, key, BLOCK_ROWS)
        return [len(block) for block in files], files, rows_of_file
    if _is_bag(vectors):
        # Partitions may be iterators, which are read once, and have no length.
        parts = client.compute(vectors.map_partitions(list).to_delayed())
        return (
            _gathered(client, [client.submit(_count, p, pure=False) for p in parts]),
            parts,
            rows_of_array,
        )
    table = _table(vectors)
    delayed = [row[0] for row in table.to_delayed().tolist()]
    return list(table.chunks[0]), client.compute(delayed), rows_of_array


def _count(part: Any) -> int:
    return len(part)


def _are_paths(vectors: Any) -> bool:
    return isinstance(vectors, (list, tuple)) and all(
        isinstance(path, (str, os.PathLike)) for path in vectors
    )


def _is_bag(vectors: Any) -> bool:
    return isinstance(vectors, require("dask.bag", extra="dask").Bag)


def _table(vectors: Any) -> Any:
    """A Dask array whose blocks hold whole rows, and whose lengths are known."""
    array = require("dask.array", extra="dask")
    if not isinstance(vectors, array.Array) or vectors.ndim != 2:
        raise InvalidInput(
            "vectors must be a Dask array of two dimensions, a bag of vectors, or files; got "
            f"{type(vectors).__name__}"
        )
    if np.isnan(vectors.shape).any():
        raise InvalidInput(
            "the lengths of the array's blocks are not known: call compute_chunk_sizes() first"
        )
    return vectors.rechunk({1: -1})


def _check_client(client: Any) -> None:
    distributed = require("distributed", extra="dask")
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise InvalidInput(
            "client must be a dask.distributed.Client that is not asynchronous, got "
            f"{type(client).__name__}: make one with Client(address)"
        )
