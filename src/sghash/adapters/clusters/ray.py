"""Ray: encode, build and search on the cluster that this process is connected to.

    import ray
    from sghash.adapters.clusters import ray as on_ray

    ray.init("auto")
    collection = on_ray.build_collection("vectors/", "codes")
    answers = on_ray.search(ray.data.read_parquet("queries/"), "codes", 10)

Workers need the same version of sghash, and must see the files and the folder of the collection
under the same paths. Nothing is started or stopped here but tasks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from sghash.adapters.clusters.batches import SEGMENT, TASK, Encoder, Searcher, encode_tasks
from sghash.adapters.clusters.building import BLOCK_ROWS, Request, build, fit_files
from sghash.collection import Collection, Task
from sghash.collection.jobs.tasks import Source
from sghash.errors import InvalidInput
from sghash.optional import require


def build_collection(
    source: Source,
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    job: str = "build",
    key: str | None = None,
    keys: str | None = None,
    metadata: Sequence[str] = (),
    rows_per_part: int = BLOCK_ROWS,
    first: int | None = None,
    **options: Any,
) -> Collection:
    """Encode files on the workers and make them visible in one step.

    As `sghash.adapters.clusters.dask.build_collection`; without a `model`, one is fitted here, on
    a sample of the files.
    """
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        raise InvalidInput(
            "Ray is not connected: call ray.init() first, with your cluster's address"
        )

    def run(tasks: list[Task]) -> list[str]:
        lines = require("ray.data", extra="ray").from_items(
            [{TASK: task.to_json()} for task in tasks], override_num_blocks=len(tasks)
        )
        done = lines.map_batches(encode_tasks, batch_format="pyarrow", batch_size=1)
        return [row[SEGMENT] for row in done.take_all()]

    request = Request(source, job, key, keys, metadata, rows_per_part, first)
    fitted = partial(fit_files, source, key)
    return build(path, request, run, model=model, fitted=fitted, options=options)


def encode(data: Any, model: Any, *, vectors: str = "vectors", codes: str = "codes") -> Any:
    """A data set with a column of vectors as the same with their codes, as bytes; lazily."""
    _check_data(data)
    encoder = Encoder(model, vectors=vectors, codes=codes)
    return data.map_batches(encoder.encoded, batch_format="pyarrow")


def search(
    data: Any,
    shards: Any,
    k: int = 10,
    *,
    vectors: str = "vectors",
    allow_partial: bool = False,
    **options: Any,
) -> Any:
    """A data set of queries with the columns `ids` and `distances`, k of each; lazily.

    Every worker opens all shards and answers its rows; `options` are those of `Collection.search`.
    A shard that a worker does not find is refused; with `allow_partial` the others answer there,
    and the worker's log says so.
    """
    _check_data(data)
    searcher = Searcher(shards, k, vectors=vectors, allow_partial=allow_partial, options=options)
    return data.map_batches(searcher.answered, batch_format="pyarrow")


def _check_data(data: Any) -> None:
    if not isinstance(data, require("ray.data", extra="ray").Dataset):
        raise InvalidInput(f"data must be a Dataset of Ray, got {type(data).__name__}")
