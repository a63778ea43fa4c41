"""Reading everything once: is the collection whole, and how large is it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.lists.stored import Lists, verify_lists
from sghash.collection.storage.loading import load_state
from sghash.collection.storage.manifest import NAME, read_manifest
from sghash.collection.storage.rows import Rows
from sghash.collection.storage.segments import Progress
from sghash.collection.storage.state import State
from sghash.collection.storage.texts import Texts, key_table
from sghash.collection.stored_model import FILES, check_values, load_checked, verify_model
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import storage_errors
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, is_small, row_columns, tails_of
from sghash.validation import MAX_ID, check_codes

_ATTEMPTS = 100
#: Recalls that `stats` says the cost of.
TARGETS = (0.8, 0.9, 0.95, 0.99)


class Summary(NamedTuple):
    """What `verify` read: living rows, deleted rows not yet compacted, files and bytes."""

    n_rows: int
    n_deleted: int
    n_files: int
    n_bytes: int


def verify(folder: Path, *, callback: Progress | None = None) -> Summary:
    """Raise `BadFile` at the first fault: a checksum, a value that cannot be, an id twice."""
    with storage_errors(folder, doing="read"):
        for _ in range(_ATTEMPTS):
            state = load_state(folder)
            try:
                return _verify(folder, state, callback)
            except (BadFile, StorageError, FileNotFoundError) as error:
                fault: Exception = error
                # Another process may have replaced the files in the meantime.
                if read_manifest(folder) == state.manifest:
                    break
    if isinstance(fault, FileNotFoundError):
        raise BadFile(
            f"{folder} is damaged: {fault.filename} is missing; restore it from a copy"
        ) from fault
    raise fault


def _verify(folder: Path, state: State, callback: Progress | None) -> Summary:
    manifest = state.manifest
    verify_model(folder, manifest)
    model = load_checked(folder, manifest)
    lists = [segment.rows.lists for segment in state.stored if segment.rows.lists is not None]
    files = [segment.file for segment in state.stored if segment.file is not None]
    files += [some.file for some in lists]
    n_bytes = 0
    for done, file in enumerate(files, start=1):
        n_bytes += file.verify()
        if callback is not None:
            callback(done, len(files))
    for segment in state.segments():
        name = folder / manifest.log if segment.file is None else segment.file.path
        check_contents(name, segment.rows, manifest.n_bits, model)
        if segment.rows.lists is not None:
            verify_lists(segment.rows.lists, segment.rows.codes, manifest, model)
    _check_once(folder, state)
    # Marks of deleted rows were tested when the state was read.
    plain = [folder / NAME, folder / manifest.log]
    plain += [folder / manifest.model / name for name in FILES]
    plain += [folder / entry.deleted for entry in manifest.segments if entry.deleted]
    n_bytes += sum(path.stat().st_size for path in plain)
    n_deleted = sum(len(s.rows) - s.n_alive for s in state.segments())
    return Summary(len(state), n_deleted, len(files) + len(plain), n_bytes)


def _check_once(folder: Path, state: State) -> None:
    """Every id must be alive in one segment only, below the next one; every key in one row."""
    segments = state.segments()
    ids = [segment.rows.ids_at(segment.live_rows()) for segment in segments]
    together = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *ids]))
    if np.any(together[1:] == together[:-1]):
        raise BadFile(f"{folder} is damaged: an id is there twice; restore it from a copy")
    if len(together) and together[-1] >= state.next_id:
        raise BadFile(f"{folder} is damaged: its next id is in use; restore it from a copy")
    keys: list[str] = []
    for segment in segments:
        if segment.rows.keys is not None:
            keys += [key for key in segment.rows.keys.take(segment.live_rows()).to_list() if key]
    if len(set(keys)) != len(keys):
        raise BadFile(f"{folder} is damaged: a key is there twice; restore it from a copy")
    for segment in segments:
        for name, column in segment.rows.columns.items():
            if state.kinds.get(name) != column.kind:
                raise BadFile(
                    f"{folder} is damaged: column {name!r} is of two kinds; restore it from a copy"
                )


def check_contents(path: Path, rows: Rows, n_bits: int, model: Any) -> None:
    """Raise `BadFile` unless all that rows hold can be what a writer wrote."""
    try:
        check_codes(rows.codes, n_bits)
        check_values(model, rows.codes)
        _, first, ids = rows.index.row_ids
        if ids is not None and len(rows):
            _expect(ids[0] == first and int(ids[-1]) <= MAX_ID, "ids")
            _expect(bool(np.all(ids[1:] > ids[:-1])), "ids")
        if rows.vectors is not None:
            _expect(_are_vectors(rows.vectors, int(model.n_features_in_)), "vectors")
        if rows.keys is not None:
            _check_keys(rows)
        for name, column in rows.columns.items():
            _expect(bool(np.all(column.present.view(np.uint8) <= 1)), name)
            if isinstance(column.values, Texts):
                column.values.to_list()
            elif column.kind == "bool":
                _expect(bool(np.all(column.values.view(np.uint8) <= 1)), name)
    except (InvalidInput, BadFile, ValueError) as error:
        raise BadFile(f"{path} is damaged ({error}): restore it from a copy") from error


def _check_keys(rows: Rows) -> None:
    assert rows.keys is not None
    rows.keys.to_list()
    if rows.stored_keys is not None:
        for stored, found in zip(rows.stored_keys, key_table(rows.keys), strict=True):
            _expect(np.array_equal(stored, found), "keys")


def all_finite(vectors: NDArray[Any]) -> bool:
    """Whether all numbers are finite; in blocks, for the vectors may be mapped."""
    step = max(1, (1 << 22) // max(1, vectors.shape[1]))
    starts = range(0, len(vectors), step)
    return all(bool(np.isfinite(vectors[start : start + step]).all()) for start in starts)


def _are_vectors(kept: NDArray[Any], width: int) -> bool:
    """Whether kept vectors can be what a writer wrote."""
    if not is_small(kept):
        return all_finite(kept)
    tails = tails_of(kept)
    if not np.isfinite(tails).all() or np.any(tails[:, :2] < 0):
        return False
    if kept.dtype == np.int8:
        return not np.any(kept[:, :width] == -128)
    return width % 2 == 0 or not np.any(kept[:, width // 2] >> 4)


def _expect(right: Any, name: str) -> None:
    if not right:
        raise ValueError(f"its {name} are not valid")


def _ceiling(lists: list[Lists]) -> float | None:
    """The highest recall that all lists were measured to have."""
    curves = [curve for some in lists if (curve := some.curve) is not None]
    return round(min(curve.ceiling.recall for curve in curves), 4) if curves else None


def _costs(lists: list[Lists]) -> dict[str, float] | None:
    """What a query cost by the recall to be reached, where all lists were measured."""
    curves, found = [some.curve for some in lists], {}
    for target in TARGETS:
        points = [None if curve is None else curve.cheapest(target) for curve in curves]
        if points and None not in points:
            found[f"{target:g}"] = round(sum(p.cost for p in points if p is not None), 1)
    return found or None


def _bytes_of_row(state: State, list_bytes: int) -> dict[str, float]:
    """What a row takes of each kind, in segments and in memory alike; without keys and metadata.

    Ids without gaps take nothing.
    """
    manifest, n = state.manifest, max(1, len(state))
    id_bytes = sum(segment.rows.index.row_ids.nbytes for segment in state.segments())
    found = {"code": float(-(-manifest.n_bits // 8)), "id": round(id_bytes / n, 2)}
    found["lists"] = round(list_bytes / n, 2)
    found["vector"] = 0.0
    if manifest.keep_vectors is not None:
        kept = KEPT_KINDS[manifest.keep_vectors]
        found["vector"] = float(row_columns(kept, manifest.width) * kept.itemsize)
    return found


def _planned(state: State) -> dict[str, Any]:
    """What the plan promises, and whether it is of these rows."""
    plan = state.manifest.parsed_plan
    if plan is None:
        return {"target_recall": None, "expected_recall": None}
    return {
        "target_recall": plan.target_recall,
        "expected_recall": None if plan.expected is None else round(plan.expected, 4),
        "best_recall": None if plan.best is None else round(plan.best, 4),
        "plan_measured": plan.measured,
        "plan_rows": plan.n_rows,
        "plan_is_old": plan.is_old(len(state)),
    }


def stats(state: State) -> dict[str, Any]:
    """Counts and sizes, of what the state holds: its files may have been replaced since."""
    manifest = state.manifest
    n = len(state)
    stored = sum(len(s.file.data) for s in state.stored if s.file is not None)
    lists = [s.rows.lists for s in state.stored if s.rows.lists is not None]
    list_bytes = sum(len(some.file.data) for some in lists)
    return {
        "n_rows": n,
        "n_deleted": sum(len(s.rows) - s.n_alive for s in state.segments()),
        "n_segments": len(manifest.segments),
        "n_rows_in_log": sum(run.n_alive for run in state.runs),
        "kind": manifest.kind,
        "n_bits": manifest.n_bits,
        "width": manifest.width,
        "metric": manifest.metric,
        "keep_vectors": manifest.keep_vectors,
        "partitions": manifest.partitions,
        "lists": sum(some.n_lists for some in lists),
        "lists_learned_from": lists[0].origin if lists else None,
        "rows_in_lists": sum(s.n_alive for s in state.stored if s.rows.lists is not None),
        "best_recall_of_lists": _ceiling(lists),
        "microseconds_for_recall": _costs(lists),
        "fingerprint": manifest.fingerprint,
        "columns": dict(state.kinds),
        "segment_bytes": stored,
        "list_bytes": list_bytes,
        "log_bytes": state.log_end,
        "model_bytes": manifest.model_bytes,
        "bytes_of_row": _bytes_of_row(state, list_bytes),
        **_planned(state),
        "bytes_per_row": (stored + list_bytes + state.log_end) / n if n else 0.0,
        "format_version": manifest.version,
        "has_old_files": manifest.has_old_files,
    }
