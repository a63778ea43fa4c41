"""Reading everything once: is the collection whole, and how large is it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sghash.collection.manifest import NAME, read_manifest
from sghash.collection.models import FILES, verify_model
from sghash.collection.sections import verify_sections
from sghash.collection.segments import DELETED_MAGIC, MAGIC, Progress
from sghash.collection.state import State, load_state
from sghash.errors import BadFile
from sghash.validation import check_codes


class Summary(NamedTuple):
    """What `verify` read: living rows, deleted rows not yet compacted, files and bytes."""

    n_rows: int
    n_deleted: int
    n_files: int
    n_bytes: int


def verify(folder: Path, *, progress: Progress | None = None) -> Summary:
    """Raise `BadFile` unless all checksums fit and every id is there once."""
    while True:
        state = load_state(folder)
        try:
            return _verify(folder, state, progress)
        except FileNotFoundError as error:
            # Another process may have replaced the files in the meantime.
            if read_manifest(folder).generation == state.manifest.generation:
                raise BadFile(
                    f"{folder} is damaged: {error.filename} is missing; restore it from a copy"
                ) from error


def _verify(folder: Path, state: State, progress: Progress | None) -> Summary:
    manifest = state.manifest
    verify_model(folder, manifest)
    files = [(entry.file, MAGIC) for entry in manifest.segments]
    files += [(entry.deleted, DELETED_MAGIC) for entry in manifest.segments if entry.deleted]
    n_bytes = 0
    for done, (name, magic) in enumerate(files, start=1):
        n_bytes += verify_sections(folder / name, magic)
        if progress is not None:
            progress(done, len(files))
    for segment in state.segments():
        check_codes(segment.rows.codes, manifest.n_bits)
        ids = segment.rows.ids
        if ids is not None and len(ids) and (ids[0] < 0 or np.any(ids[1:] <= ids[:-1])):
            raise BadFile(f"{folder} is damaged: the ids of {segment.file} do not rise")
    _check_once(folder, state)
    plain = [folder / NAME, folder / manifest.log]
    plain += [folder / manifest.model / name for name in FILES]
    n_bytes += sum(path.stat().st_size for path in plain)
    n_deleted = sum(len(s.rows) - s.n_alive for s in state.segments())
    return Summary(len(state), n_deleted, len(files) + len(plain), n_bytes)


def _check_once(folder: Path, state: State) -> None:
    """Every id must be alive in one segment only, every key in one row only."""
    segments = state.segments()
    ids = [segment.rows.ids_at(segment.live_rows()) for segment in segments]
    together = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *ids]))
    if np.any(together[1:] == together[:-1]):
        raise BadFile(f"{folder} is damaged: an id is there twice")
    keys: list[str] = []
    for segment in segments:
        if segment.rows.keys is not None:
            keys += [key for key in segment.rows.keys.take(segment.live_rows()).to_list() if key]
    if len(set(keys)) != len(keys):
        raise BadFile(f"{folder} is damaged: a key is there twice")


def stats(folder: Path, state: State) -> dict[str, Any]:
    """Counts and sizes."""
    manifest = state.manifest
    n = len(state)
    stored = sum((folder / entry.file).stat().st_size for entry in manifest.segments)
    log = (folder / manifest.log).stat().st_size
    model = sum((folder / manifest.model / name).stat().st_size for name in FILES)
    return {
        "n_rows": n,
        "n_deleted": sum(len(s.rows) - s.n_alive for s in state.segments()),
        "n_segments": len(manifest.segments),
        "n_rows_in_log": sum(run.n_alive for run in state.runs),
        "n_bits": manifest.n_bits,
        "width": manifest.width,
        "metric": manifest.metric,
        "keep_vectors": manifest.keep_vectors,
        "fingerprint": manifest.fingerprint,
        "columns": dict(state.kinds),
        "segment_bytes": stored,
        "log_bytes": log,
        "model_bytes": model,
        "bytes_per_row": (stored + log) / n if n else 0.0,
    }
