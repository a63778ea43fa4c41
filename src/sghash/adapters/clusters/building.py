"""One collection out of many files, whoever the workers are: an engine brings what runs tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.adapters.clusters.blocks import file_blocks, rows_of_file
from sghash.collection import Collection, Staged, Task
from sghash.collection.jobs.tasks import Source
from sghash.collection.storage.folders import why_missing
from sghash.collection.stored_model import first_manifest
from sghash.errors import InvalidInput

#: Rows that a model learns from, where nobody says how many.
SAMPLE_ROWS = 100_000
#: Rows of a part, where nobody says how many.
BLOCK_ROWS = 1_000_000


class Request(NamedTuple):
    """What a job takes of which files: the arguments of `Collection.prepare`."""

    source: Source
    job: str = "build"
    key: str | None = None
    keys: str | None = None
    metadata: Sequence[str] = ()
    rows_per_part: int = BLOCK_ROWS
    first: int | None = None


def build(
    path: str | os.PathLike[str],
    request: Request,
    run: Callable[[list[Task]], Iterable[Staged | str]],
    *,
    model: Any,
    fitted: Callable[[], Any],
    options: Mapping[str, Any],
) -> Collection:
    """Let `run` encode all tasks, then make them visible in one step; return the open collection.

    A collection that stands at `path` is added to, if it was made with the same `options`; else
    one is created, for `model` or what `fitted` gives. Whatever fails leaves the rows as they were.
    """
    if why_missing(Path(path)) is None:
        collection = Collection.open(path, writable=True, model=model)
    else:
        collection = Collection.create(path, fitted() if model is None else model, **options)
    try:
        _refuse_other_options(collection, options)
        tasks = collection.prepare(**request._asdict())
        collection.commit(run(tasks), job=request.job)
    except BaseException:
        collection.close()
        raise
    return collection


def _refuse_other_options(collection: Collection, options: Mapping[str, Any]) -> None:
    """Refuse options that the collection was not made with; those it has may be repeated."""
    if not options:
        return
    asked = first_manifest(collection.model, **{"keep_vectors": None, "metric": None, **options})
    found = collection.moment.state.manifest
    other = [name for name in sorted(options) if getattr(asked, name) != getattr(found, name)]
    if other:
        has = ", ".join(f"{name}={getattr(found, name)!r}" for name in other)
        raise InvalidInput(
            f"{collection.folder} is a collection already, made with {has}: leave out "
            f"{', '.join(other)}, or give a new folder"
        )


def fit_files(source: Source, key: str | None = None, *, random_state: int = 0) -> Any:
    """`SGH` fitted on a random sample of files, read by this process: the same on every engine."""
    from sghash.models.sgh import SGH

    blocks = file_blocks(source, key, BLOCK_ROWS)
    limits = np.cumsum([0, *map(len, blocks)])
    rows = chosen_rows(int(limits[-1]), SAMPLE_ROWS, random_state)
    cuts = np.searchsorted(rows, limits)
    parts = [
        rows_of_file(block, rows[cuts[i] : cuts[i + 1]] - limits[i])
        for i, block in enumerate(blocks)
    ]
    return SGH(random_state=random_state).fit(np.concatenate(parts))


def chosen_rows(n: int, n_rows: int, random_state: int) -> NDArray[np.int64]:
    """At most `n_rows` of n rows, rising; they depend on `random_state` alone."""
    rng = np.random.default_rng(random_state)
    return np.sort(rng.choice(n, min(n, n_rows), replace=False, shuffle=False))
