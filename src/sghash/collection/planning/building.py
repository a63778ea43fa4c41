"""From vectors to a collection in one call: a folder that is whole when it appears.

Everything is made in a folder beside the one that was asked for, which gets its name at the end: a
build that fails, or a machine that stops, leaves nothing under that name.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sghash.collection.incoming import check_incoming
from sghash.collection.lists.targets import check_target
from sghash.collection.planning.choosing import Choice, Wanted, choose
from sghash.collection.planning.looking import Look, look
from sghash.collection.planning.measuring import measured_points, with_whole_truth
from sghash.collection.planning.pipelines import codes_for_shortlists, kinds_to_try
from sghash.collection.planning.plan import Plan
from sghash.collection.storage.disk import WriterLock
from sghash.collection.storage.folders import make_folders, names_in
from sghash.collection.storage.manifest import AUTO
from sghash.errors import InvalidInput, StorageError
from sghash.files import storage_errors, sync_folder
from sghash.models.inputs import is_source
from sghash.progress import Bar, Counting
from sghash.validation import Ids, check_count, check_k, check_vectors

logger = logging.getLogger("sghash.collection")

# Looking, learning, adding, making lists, measuring.
_OTHER_STEPS = 5
_ROWS, _QUERIES = "rows of its own, each left out of its answer", "queries that were given"


class Steps:
    """Counts the steps of a build, and says each by name to a bar or a log."""

    def __init__(self, wanted: Wanted, told: Counting | None) -> None:
        n_kinds = len(kinds_to_try(wanted.keep_vectors))
        self._n = n_kinds + len(codes_for_shortlists(None)) + _OTHER_STEPS
        self._done, self._told = 0, told

    def __call__(self, text: str) -> None:
        """Begin another step."""
        logger.info("building: %s", text)
        if isinstance(self._told, Bar):
            self._told.describe(text)
        self._report(min(self._done, self._n - 1))
        self._done += 1

    def finish(self) -> None:
        """All is done."""
        self._report(self._n)

    def _report(self, done: int) -> None:
        if self._told is not None:
            self._told(done, self._n)


def check_wanted(
    target_recall: Any, k: Any, bytes_per_vector: Any, keep_vectors: Any, random_state: Any
) -> Wanted:
    """What `Collection.build` was asked for, or one sentence."""
    if bytes_per_vector is not None:
        check_count(bytes_per_vector, name="bytes_per_vector")
    check_count(random_state, name="random_state", least=0)
    kinds_to_try(keep_vectors)
    return Wanted(
        check_target(target_recall), check_k(k), bytes_per_vector, keep_vectors, int(random_state)
    )


def build(
    create: Callable[..., Any],
    folder: Path,
    vectors: Any,
    ids: Any,
    metadata: Any,
    *,
    wanted: Wanted,
    metric: str | None,
    queries: Any,
    told: Counting | None,
) -> None:
    """Look, try, choose, learn, add and measure; then the folder is there."""
    if isinstance(vectors, np.ndarray) and vectors.ndim == 1 and vectors.dtype.kind in "fiub":
        raise InvalidInput(
            "vectors must have two dimensions, got one: give x[None, :] for one row, or x[:, None] "
            "for rows of one number"
        )
    rows = vectors if is_source(vectors) else check_vectors(vectors)
    if not rows.shape[0]:
        raise InvalidInput("there are no vectors: give at least one row")
    if not rows.shape[1]:
        raise InvalidInput("the vectors have no columns: give rows of numbers")
    _refuse_existing(folder)
    check_incoming(ids, metadata, rows.shape[0])
    steps = Steps(wanted, told)
    steps("looking at the vectors")
    seen = look(rows, metric=metric, queries=queries, k=wanted.k, random_state=wanted.random_state)
    choice = choose(seen, wanted, steps)
    steps(f"learning {choice.pipeline.code_name}")
    model = choice.pipeline.new_model(seen.metric, wanted.random_state).fit(rows)
    place = folder.with_name(f".{folder.name}.building")
    _clear(place)
    # What fails here is cleared up there: the folder may be another build's by now.
    made = create(
        place, model, keep_vectors=choice.pipeline.keep, metric=seen.metric, partitions=AUTO
    )
    try:
        with made:
            steps("adding the vectors")
            numbers = made.add(rows, ids, metadata)
            steps("making lists")
            made.compact()
            steps("measuring recall")
            asked_by = _ROWS if queries is None else _QUERIES
            made.follow(_plan(made, seen, choice, wanted, rows, numbers, asked_by))
            if os.name == "posix":
                # Under its lock: whoever clears up after builds must not take it for a left-over.
                _put_in_place(place, folder)
        if os.name != "posix":
            _put_in_place(place, folder)  # a folder with open files cannot be renamed there
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    steps.finish()


def _plan(
    made: Any,
    seen: Look,
    choice: Choice,
    wanted: Wanted,
    rows: Any,
    numbers: Ids,
    asked_by: str,
) -> Plan:
    """What was chosen, and the recall that the finished collection has."""
    whole = with_whole_truth(seen, rows, wanted.k)
    points = measured_points(
        made.moment, whole, np.asarray(numbers), wanted.k, wanted.target_recall
    )
    best = max((point.recall for point in points), default=1.0)
    return Plan(
        target_recall=wanted.target_recall,
        k=wanted.k,
        metric=seen.metric,
        why_metric=seen.why_metric,
        pipeline=choice.pipeline.name,
        reached=best >= wanted.target_recall,
        n_rows=seen.n,
        n_queries=len(whole.queries),
        asked_by=asked_by,
        random_state=wanted.random_state,
        tried=tuple(line.as_dict() for line in choice.tried),
        points=points,
    )


def _refuse_existing(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StorageError(f"{folder} is a file: give the name of a new folder")
    if names_in(folder):
        raise StorageError(
            f"{folder} is not empty: open it with Collection.open(path, writable=True) if it is a "
            "collection, or give a new folder"
        )


def _clear(place: Path) -> None:
    """Remove what a build that was stopped has left; refuse where one is under way."""
    for name in names_in(place.parent) if place.parent.is_dir() else ():
        if name.startswith(f"{place.name}.") and len(name) == len(place.name) + 17:
            shutil.rmtree(place.with_name(name), ignore_errors=True)  # its removal was stopped
    if place.exists():
        lock = WriterLock(place, shown=f"{place} (another build of the same name)")
        left = place.with_name(f"{place.name}.{secrets.token_hex(8)}")
        try:
            if os.name == "posix":
                # Under the lock it gets a name that no build looks for, and only then it goes.
                with storage_errors(place):
                    os.replace(place, left)
        finally:
            lock.release()
        with storage_errors(place):
            shutil.rmtree(left if os.name == "posix" else place)


def _put_in_place(place: Path, folder: Path) -> None:
    """Give the finished folder its name; an empty folder of that name is replaced."""
    make_folders(folder.parent)
    with storage_errors(folder):
        os.replace(place, folder)
        sync_folder(folder.parent)
