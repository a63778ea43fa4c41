"""Spark: encode, build and search on the executors of a session that the caller brings.

    from pyspark.sql import SparkSession
    from sghash.adapters.clusters import spark as on_spark

    spark = SparkSession.builder.getOrCreate()
    collection = on_spark.build_collection("vectors/", "codes", spark=spark)
    answers = on_spark.search(spark.read.parquet("queries/"), "codes", 10)

Executors need the same version of sghash, and must see the files and the folder of the collection
under the same paths. Nothing is started or stopped here but jobs of the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sghash.adapters.clusters.batches import SEGMENT, TASK, Encoder, Searcher, encode_tasks
from sghash.adapters.clusters.building import BLOCK_ROWS, Request, build, fit_files
from sghash.collection import Collection, Task
from sghash.collection.jobs.tasks import Source
from sghash.errors import InvalidInput
from sghash.optional import require


def in_arrow(function: Callable[[Any], Any]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function of tables as `DataFrame.mapInArrow` wants it: batches in, batches out."""

    def batches(batches: Iterable[Any]) -> Iterator[Any]:
        arrow = require("pyarrow", extra="parquet")
        for batch in batches:
            yield from function(arrow.Table.from_batches([batch])).to_batches()

    return batches


def build_collection(
    source: Source,
    path: str | os.PathLike[str],
    *,
    spark: Any,
    model: Any = None,
    job: str = "build",
    key: str | None = None,
    keys: str | None = None,
    metadata: Sequence[str] = (),
    rows_per_part: int = BLOCK_ROWS,
    first: int | None = None,
    **options: Any,
) -> Collection:
    """Encode files on the executors and make them visible in one step.

    As `sghash.adapters.clusters.dask.build_collection`; without a `model`, one is fitted here, on
    a sample of the files.
    """
    _check_session(spark)

    def run(tasks: list[Task]) -> list[str]:
        lines = spark.createDataFrame([(task.to_json(),) for task in tasks], f"{TASK} string")
        # A partition for each task: what fails is done again alone.
        each = lines.repartition(len(tasks))
        done = each.mapInArrow(in_arrow(encode_tasks), f"{SEGMENT} string")
        return [row[SEGMENT] for row in done.collect()]

    request = Request(source, job, key, keys, metadata, rows_per_part, first)
    fitted = partial(fit_files, source, key)
    return build(path, request, run, model=model, fitted=fitted, options=options)


def encode(frame: Any, model: Any, *, vectors: str = "vectors", codes: str = "codes") -> Any:
    """A frame with a column of vectors as the same frame with their codes, as bytes; lazily."""
    _check_frame(frame, vectors, codes)
    schema = _with(frame, (codes, "BinaryType"))
    return frame.mapInArrow(in_arrow(Encoder(model, vectors=vectors, codes=codes).encoded), schema)


def search(
    frame: Any,
    shards: Any,
    k: int = 10,
    *,
    vectors: str = "vectors",
    allow_partial: bool = False,
    **options: Any,
) -> Any:
    """A frame of queries with the columns `ids` and `distances`, k of each; lazily.

    Every executor opens all shards and answers its rows; `options` are those of
    `Collection.search`. A shard that an executor does not find is refused; with `allow_partial`
    the others answer there, and the executor's log says so.
    """
    _check_frame(frame, vectors, "ids", "distances")
    schema = _with(frame, ("ids", "LongType"), ("distances", "FloatType"))
    searcher = Searcher(shards, k, vectors=vectors, allow_partial=allow_partial, options=options)
    return frame.mapInArrow(in_arrow(searcher.answered), schema)


def _with(frame: Any, *columns: tuple[str, str]) -> Any:
    types = require("pyspark.sql.types", extra="spark")
    kinds = {kind: getattr(types, kind)() for _, kind in columns}
    lists = {k: v if k == "BinaryType" else types.ArrayType(v) for k, v in kinds.items()}
    added = [types.StructField(name, lists[kind], True) for name, kind in columns]
    return types.StructType([*frame.schema.fields, *added])


def _check_frame(frame: Any, vectors: str, *new: str) -> None:
    sql = require("pyspark.sql", extra="spark")
    if not isinstance(frame, sql.DataFrame):
        raise InvalidInput(f"frame must be a DataFrame of Spark, got {type(frame).__name__}")
    if vectors not in frame.columns:
        raise InvalidInput(
            f"the frame has no column {vectors!r}: name the one that holds vectors by vectors="
        )
    for name in new:
        if name in frame.columns:
            raise InvalidInput(f"the frame has a column {name!r} already: rename it first")


def _check_session(spark: Any) -> None:
    sql = require("pyspark.sql", extra="spark")
    if not isinstance(spark, sql.SparkSession):
        raise InvalidInput(
            f"spark must be a SparkSession, got {type(spark).__name__}: make one with "
            "SparkSession.builder.getOrCreate()"
        )
