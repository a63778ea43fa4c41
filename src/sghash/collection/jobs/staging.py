"""The worker's side: rows of a file become a whole segment beside a collection, seen by nobody.

A worker keeps nothing between two calls but the model. Whatever stops it leaves at most a file
that is not finished, which nobody takes for a segment; a task that is done again finds what was
done before. Two workers on one task write a file each, and either one will do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.collection.incoming import BLOCK_BYTES, as_kept
from sghash.collection.jobs.fields import read_fields
from sghash.collection.jobs.tasks import Staged, Task, refuse_version, stamp_of
from sghash.collection.storage.disk import remove, write_new
from sghash.collection.storage.folders import make_folders, names_in
from sghash.collection.storage.manifest import Manifest, SegmentEntry, new_identity, read_manifest
from sghash.collection.storage.segments import MAGIC, read_segment
from sghash.collection.storage.state import empty_index, shape_of
from sghash.collection.stored_model import load_checked
from sghash.data import open_vectors
from sghash.errors import BadFile, InvalidInput, StorageError
from sghash.files import storage_errors, sync_folder
from sghash.index.container import Packing, Section, SectionFile, read_sections, section_of
from sghash.kernels.vectors.kinds import KINDS as KEPT_KINDS, row_columns
from sghash.validation import Codes, Vectors, check_vectors

#: Folder in a collection for what is not part of it yet.
STAGED = "staged"
_UNFINISHED = ".new"


def encode_part(task: Task | Mapping[str, Any] | str) -> Staged:
    """Encode the rows of a task and write them, durably, as a segment that is not visible yet.

    Any number of processes on any machines that see the folder of the collection and the file may
    do this at once. `task` may come as its JSON, too.
    """
    task = Task.of(task)
    folder = Path(task.folder)
    manifest = read_manifest(folder)
    _refuse_stranger(task, manifest)
    if was_committed(manifest, task.job, task.digest):
        return _staged(task, SegmentEntry("", task.stop - task.start), name=None)
    place = staging_place(folder, task.job, task.digest)
    make_folders(place)
    found = _written_before(place, task, manifest)
    if found is None:
        found = _write(place, task, manifest)
        if task.job in read_manifest(folder).jobs:  # it came too late: nobody will ask for it
            discard(folder, task.job)
    return found


def was_committed(manifest: Manifest, job: str, digest: str) -> bool:
    """Whether the collection has this job already; refuse another one of the same name."""
    done = manifest.jobs.get(job)
    if done is not None and done["digest"] != digest:
        raise InvalidInput(
            f"the job {job!r} was committed before, prepared otherwise (other rows, or another "
            "rows_per_part): choose another name for this one"
        )
    return done is not None


def staging_place(folder: Path, job: str, digest: str | None = None) -> Path:
    """Where the segments of a job lie before they are committed; without a digest, all of them."""
    place = folder / STAGED / sha256(job.encode()).hexdigest()[:16]
    return place if digest is None else place / digest


def staged_jobs(folder: Path, manifest: Manifest) -> int:
    """How many jobs have staged segments here, and are not committed."""
    done = {staging_place(folder, job).name for job in manifest.jobs}
    try:
        return len(set(os.listdir(folder / STAGED)) - done)
    except OSError:
        return 0  # as a rule there is no such folder


def discard(folder: Path, job: str) -> None:
    """Remove what was staged for a job; where the system refuses, the next call tries again."""
    shutil.rmtree(staging_place(folder, job), ignore_errors=True)
    try:
        (folder / STAGED).rmdir()
    except OSError:
        return  # other jobs are there, or nothing was


def entry_of(staged: Staged, manifest: Manifest) -> SegmentEntry:
    """What a manifest would say of a staged segment."""
    return SegmentEntry(
        staged.file or "", staged.n, identity=staged.identity, checksum=staged.checksum,
        kind=manifest.kind,
    )  # fmt: skip


def check_belongs(file: SectionFile, task: Task | Staged, manifest: Manifest) -> None:
    """Raise `BadFile` unless a file was written for this part of this job of this collection."""
    expected = {
        "job": task.digest, "part": task.part, "first": task.first,
        "collection": manifest.identity, "model": manifest.fingerprint,
    }  # fmt: skip
    if any(file.about.get(name) != value for name, value in expected.items()):
        raise BadFile(
            f"{file.path} was not written for part {task.part} of the job {task.job!r} of this "
            "collection: prepare and encode it again"
        )


def _refuse_stranger(task: Task, manifest: Manifest) -> None:
    """Refuse to write with another sghash, for another collection, or with another model."""
    refuse_version(task.version)
    _refuse_other(manifest, task.folder, task.identity, task.fingerprint)


def _refuse_other(manifest: Manifest, folder: str, identity: str, fingerprint: str) -> None:
    if identity != manifest.identity:
        raise InvalidInput(
            f"{folder} is another collection for this worker than where the job was prepared: let "
            "both see the same folder"
        )
    if fingerprint != manifest.fingerprint:
        raise InvalidInput(
            f"the collection has the model {manifest.fingerprint[:12]}, the job was prepared for "
            f"{fingerprint[:12]}: prepare it again"
        )


@lru_cache(maxsize=4)
def _model_of(folder: str, identity: str, fingerprint: str) -> Any:
    """The model of a collection, read once by each process; the key tells it from others."""
    manifest = read_manifest(Path(folder))
    _refuse_other(manifest, folder, identity, fingerprint)  # it may be another one by now
    return load_checked(Path(folder), manifest)


def _written_before(place: Path, task: Task, manifest: Manifest) -> Staged | None:
    """A whole segment of this task that an earlier call has written, every byte checked."""
    begin = f"part-{task.part:08d}-"
    for name in sorted(names_in(place)):
        if not name.startswith(begin) or name.endswith(_UNFINISHED):
            continue
        try:
            file = read_sections(place / name, MAGIC)
            check_belongs(file, task, manifest)
            found = SegmentEntry(
                name, task.stop - task.start, identity=file.identity, checksum=file.checksum,
                kind=manifest.kind,
            )  # fmt: skip
            read_segment(place, found, shape_of(manifest), in_memory=False)
            file.verify()
        except (BadFile, OSError):
            continue
        return _staged(task, found, name=name)
    return None


def _write(place: Path, task: Task, manifest: Manifest) -> Staged:
    """Read, encode and write; the file gets its name when all of it is on the disk."""
    source = _source_of(task, manifest)
    model = _model_of(task.folder, task.identity, task.fingerprint)
    fields = read_fields(task.file, task.start, task.stop, task.keys, task.kinds)
    encoding = _Encoding(source, task, manifest, model)
    identity = new_identity()
    about = {
        "n": encoding.n, "first": task.first, "kinds": task.kinds, "identity": identity,
        "kind": manifest.kind, "collection": manifest.identity, "model": manifest.fingerprint,
        "job": task.digest, "part": task.part,
    }  # fmt: skip
    small = {name: section_of(array) for name, array in fields.arrays().items()}
    packing = Packing(MAGIC, about, small | encoding.sections())
    name = f"part-{task.part:08d}-{identity}"
    unfinished = place / f"{name}{_UNFINISHED}"
    write_new(unfinished, packing)
    try:
        _refuse_changed(task)  # rows of two versions of the file may be in it
    except StorageError:
        remove(unfinished)
        raise
    with storage_errors(place / name):
        os.replace(unfinished, place / name)
        # Outermost last: what is found there after a crash is whole.
        for folder in (place, *place.parents[:3]):
            sync_folder(folder)
    entry = SegmentEntry(name, encoding.n, identity=identity, checksum=packing.checksum)
    return _staged(task, entry, name=name)


def _source_of(task: Task, manifest: Manifest) -> VectorSource:
    """The file of a task, which must be what it was when the job was prepared."""
    source = open_vectors(task.file, key=task.key)
    _refuse_changed(task, same_rows=source.shape[0] >= task.stop)
    if source.shape[1] != manifest.width:
        raise InvalidInput(f"{task.file} holds vectors of {source.shape[1]} columns")
    return source


def _refuse_changed(task: Task, *, same_rows: bool = True) -> None:
    if not same_rows or stamp_of(task.file) != (task.file_bytes, task.file_time):
        raise StorageError(
            f"{task.file} has changed since the job {task.job!r} was prepared: prepare it again"
        )


def _staged(task: Task, entry: SegmentEntry, *, name: str | None) -> Staged:
    return Staged(
        task.job, task.digest, task.part, task.n_parts, task.first, entry.n, name, entry.identity,
        entry.checksum or 0,
    )  # fmt: skip


class _Encoding:
    """Codes and kept vectors of a task, made as they are written: a few blocks are in memory.

    Where vectors are kept they come first, and their codes are made on the way: what is read from
    the file is read once.
    """

    def __init__(self, source: VectorSource, task: Task, manifest: Manifest, model: Any) -> None:
        self._source, self._task, self._manifest, self._model = source, task, manifest, model
        self.n = task.stop - task.start
        self._n_bytes = empty_index(manifest).n_bytes
        self._codes: Codes | None = None

    def sections(self) -> dict[str, Section]:
        """What a segment of these rows consists of; to be read in this order, once."""
        code = np.dtype(np.uint8)
        codes = Section(code, (self.n, self._n_bytes), self._read_codes)
        kept = self._manifest.keep_vectors
        if kept is None:
            return {"codes": codes}
        kind = KEPT_KINDS[kept]
        self._codes = np.empty((self.n, self._n_bytes), dtype=code)
        shape = self.n, row_columns(kind, self._manifest.width)
        return {"vectors": Section(kind, shape, self._read_vectors), "codes": codes}

    def _read_codes(self, start: int, stop: int) -> Codes:
        if self._codes is not None:
            return self._codes[start:stop]
        blocks = [self._encoded(block) for block in self._blocks(start, stop)]
        return np.concatenate(blocks)

    def _read_vectors(self, start: int, stop: int) -> NDArray[Any]:
        assert self._codes is not None and self._manifest.keep_vectors is not None
        kept, first = [], start
        for block in self._blocks(start, stop):
            self._codes[first : first + len(block)] = self._encoded(block)
            kept.append(as_kept(block, self._manifest.keep_vectors))
            first += len(block)
        return np.concatenate(kept)

    def _encoded(self, block: Vectors) -> Codes:
        codes: Codes = self._model.encode(block)
        return codes

    def _blocks(self, start: int, stop: int) -> Any:
        """Checked vectors of these rows of the task, a block at a time."""
        task, width = self._task, self._manifest.width
        n_rows = max(1, BLOCK_BYTES // (4 * width))
        for first, block in blocks_of(
            self._source, n_rows, start=task.start + start, stop=task.start + stop
        ):
            try:
                yield check_vectors(block, width=width)
            except InvalidInput as error:
                end = first + len(block) - 1
                raise InvalidInput(f"{task.file}, rows {first} to {end}: {error}") from error
