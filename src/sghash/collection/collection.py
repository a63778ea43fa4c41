"""`Collection`: a model, the codes it made, and what belongs to them, in a folder on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sghash.blocks import VectorSource
from sghash.collection import answers, stored_model
from sghash.collection.incoming import append_vectors, new_rows
from sghash.collection.lists.building import builder_of
from sghash.collection.moment import ModelHolder, Moment
from sghash.collection.planning.plan import Plan
from sghash.collection.reading import Reading
from sghash.collection.recent import Recent
from sghash.collection.roles import check_roles
from sghash.collection.storage import verification
from sghash.collection.storage.backup import back_up
from sghash.collection.storage.columns import Column, filled_columns
from sghash.collection.storage.creation import new_folder
from sghash.collection.storage.folders import resolved
from sghash.collection.storage.loading import load_state
from sghash.collection.storage.state import State
from sghash.collection.storage.writer import Writer
from sghash.collection.where.choice import ids_of
from sghash.errors import InvalidInput, StorageError
from sghash.guards import Guard
from sghash.progress import Callback, counting
from sghash.validation import Codes, Ids, Vectors, check_codes

if TYPE_CHECKING:
    from sghash.collection.jobs.tasks import Source, Staged, Task


class Collection(Reading):
    """Vectors as codes in a folder: added durably, searched exactly, shared between processes.

    Make one with `create`, come back with `open`. One process may write, any number may read;
    a reader sees the collection as it was when it opened it or last called `refresh`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        writer: Writer | None = None,
        model: Any = None,
        in_memory: bool = False,
    ) -> None:
        if not isinstance(folder, Path):
            raise InvalidInput("open a collection by Collection.open(path), or build or create it")
        self._folder, self._writer, self._in_memory = folder, writer, in_memory
        self._folders = (folder,)
        # Held while the collection changes; a search takes the moment as it is, and needs none.
        self._guard = Guard(reentrant=True)
        self._recent = Recent()
        state = load_state(folder, in_memory=in_memory) if writer is None else writer.state
        self._moment = Moment(state, ModelHolder(folder, state.manifest, model))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        model: Any,
        *,
        keep_vectors: str | None = None,
        metric: str | None = None,
        partitions: int | str | None = None,
    ) -> Self:
        """Make a new collection for the codes of a fitted `model`, open for writing.

        `keep_vectors` stores the vectors beside their codes, for distances and `reencode`: as they
        are ("float32"), rounded ("float16"), or about as they are ("int8", "int4": a quarter and an
        eighth of float32). `metric` ("l2", "ip" or "cosine") is what `rerank` scores; None is the
        model's own, or "l2". A model without a metric needs unit vectors for "cosine".
        `partitions` lets `compact` put rows into lists, which a search with `target_recall` visits
        few of: so many lists, "auto" where that pays (from 20,000 rows on), None never.
        """
        folder = resolved(path)
        manifest = stored_model.first_manifest(
            model, keep_vectors=keep_vectors, metric=metric, partitions=partitions
        )
        with new_folder(folder, manifest, model) as lock:
            return cls(folder, writer=Writer(folder, lock=lock), model=stored_model.own_copy(model))

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        vectors: ArrayLike | VectorSource,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        metric: str | None = None,
        target_recall: float = 0.95,
        bytes_per_vector: int | None = None,
        keep_vectors: str | None = "auto",
        queries: ArrayLike | None = None,
        k: int = 10,
        random_state: int = 0,
        callback: Callback | None = None,
    ) -> Self:
        """Make a collection of vectors (n, d) that finds a share of the true neighbours.

        Tries what can win on a sample, keeps the smallest vectors that reach `target_recall`
        behind the code that is fastest, adds all rows (`ids` and `metadata` as `add` takes them),
        and measures the result: `plan` holds all of it, and `search` without options follows it.

        `metric` None is "cosine" for rows of length one, else "l2". `bytes_per_vector` is the most
        that a code and a kept vector may take together; where nothing of that size reaches the
        target, the best is taken, and the plan says so. `keep_vectors` may be "int4", "int8",
        "float16", "float32", or None for codes alone. Recall is promised for queries like the
        rows; give a sample of real `queries` where they are of another kind. `k` is the number of
        neighbours that recall is measured of. `callback` receives (steps done, steps in all).
        The folder appears when all is done: what fails leaves nothing.
        """
        from sghash.collection.planning.building import build, check_wanted

        folder = resolved(path)
        wanted = check_wanted(target_recall, k, bytes_per_vector, keep_vectors, random_state)
        build(
            cls.create, folder, vectors, ids, metadata, wanted=wanted, metric=metric,
            queries=queries, told=counting(callback, "building", "step"),
        )  # fmt: skip
        return cls.open(folder, writable=True)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        writable: bool = False,
        model: Any = None,
        in_memory: bool = False,
    ) -> Self:
        """Open a collection; nothing is read yet but what is needed to find the rest.

        Only one process may open it with `writable`. A `model` given here must be the one the
        codes were made with; without it the model stored in the collection is used.
        Rows stay in their files, mapped into memory: should another program cut such a file short
        meanwhile, the system ends this process (SIGBUS). With `in_memory` all rows are read and
        checked, so that nothing done to the files later can matter.
        """
        folder = resolved(path)
        writer = Writer(folder, in_memory=in_memory, shown=os.fspath(path)) if writable else None
        collection = cls(folder, writer=writer, in_memory=in_memory)
        try:
            if model is not None:
                model = stored_model.own_copy(model)
                collection.check_fingerprint(model.fingerprint_)
                state = collection._moment.state
                collection._moment = Moment(state, ModelHolder(folder, state.manifest, model))
            elif in_memory:
                collection.refresh()
                collection.model  # noqa: B018 - reads it, as all the rest
        except BaseException:
            collection.close()
            raise
        return collection

    def close(self) -> None:
        """Give up the right to write; a closed writer can still read."""
        with self._guard.lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None  # not before: what was interrupted can be called again

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Collection({str(self._folder)!r}) with {len(self)} codes of {self.n_bits} bits"

    def refresh(self) -> int:
        """See what other processes have done since; returns the number of rows."""
        with self._guard.lock:
            if self._writer is not None and self._writer.is_own:
                self._see(self._writer.ready())
            else:
                self._moment = self._moment.refreshed(self._folder, in_memory=self._in_memory)
            return len(self)

    def add(
        self, vectors: ArrayLike | VectorSource, ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None, *, callback: Callback | None = None,
    ) -> Ids:  # fmt: skip
        """Encode and add vectors (n, d); they are on the disk when this returns their ids.

        `ids` are whole numbers, or strings (keys) that get a new number each; without them rows
        get the next numbers never used before. `metadata` maps column names to n values each.
        Of an array all vectors are added, or none. A source or a memory map is read in blocks,
        each durable when `callback` receives (rows done, rows in all); if one fails, a note of
        the error says how many vectors the blocks before it have added.
        """
        return self._append_vectors(vectors, ids, metadata, replacing=False, callback=callback)

    def add_codes(
        self, codes: ArrayLike, ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None, *, fingerprint: str, replacing: bool = False,
    ) -> Ids:  # fmt: skip
        """Add codes made elsewhere by the model of this `fingerprint`; or, `replacing`, upsert."""
        state = self._moment.state
        answers.check_fingerprint(state, fingerprint)
        if state.manifest.keep_vectors is not None:
            raise InvalidInput("this collection keeps vectors: add the vectors, not their codes")
        array = check_codes(codes, state.manifest.n_bits)
        answers.check_values_of(self._moment, array)
        columns = filled_columns(metadata, len(array))
        return self._append(None, array, fingerprint, ids, columns, replacing=replacing)

    def upsert(
        self, vectors: ArrayLike | VectorSource, ids: ArrayLike | Sequence[str],
        metadata: Mapping[str, Any] | None = None, *, callback: Callback | None = None,
    ) -> Ids:  # fmt: skip
        """Like `add`, but a row that is there already is replaced, with its metadata.

        A string key keeps the number it had.
        """
        return self._append_vectors(vectors, ids, metadata, replacing=True, callback=callback)

    def delete(self, ids: ArrayLike | Sequence[str]) -> None:
        """Delete rows by id or key, durably; all other ids stay as they are."""
        with self._guard.lock:
            writer = self._writable()
            chosen = np.unique(ids_of(ids, writer.ready()))
            if len(chosen):
                self._change(lambda: writer.delete(chosen))

    def compact(self, *, callback: Callback | None = None) -> None:
        """Bring all rows into one segment, in lists if the collection has partitions.

        `callback` receives (rows done, rows in all).
        """
        told = counting(callback, "compacting")
        with self._guard.lock:
            writer = self._writable()
            manifest = writer.ready().manifest
            build = None
            if manifest.partitions is not None:
                self._see(writer.state)
                build = builder_of(self.model, manifest)
            self._change(lambda: writer.compact(build=build, callback=told))

    def prepare(
        self, source: Source, *, job: str, key: str | None = None, keys: str | None = None,
        metadata: Sequence[str] = (), rows_per_part: int = 1_000_000, first: int | None = None,
    ) -> list[Task]:  # fmt: skip
        """Divide files of vectors into tasks for `encode_part`, which any process may call.

        `source` and `key` are those of `open_vectors`; of Parquet files, `keys` names the column
        of string keys, `metadata` those of metadata. Ids count on through files and their rows,
        from `first` on, which other shards must leave free; None is the next that was never used.
        A `job` that was committed already gets the ids it had.
        """
        from sghash.collection.jobs.tasks import Wanted, tasks_of

        with self._guard.lock:
            state = self._moment.state if self._writer is None else self._writer.ready()
        wanted = Wanted(key, keys, metadata, first)
        return tasks_of(self._folder, state, source, wanted, job=job, rows_per_part=rows_per_part)

    def commit(
        self, segments: Iterable[Staged | str], *, job: str, callback: Callback | None = None
    ) -> int:
        """Make all that `encode_part` wrote for a job visible, all or none; return its rows.

        A job that was committed before changes nothing. `callback` receives (done, in all).
        """
        from sghash.collection.jobs.committing import commit_job

        told = counting(callback, "committing", "segment")
        with self._guard.lock:
            return commit_job(
                self._folder, self._writable(), self._change, segments, job, self.model, told
            )

    def discard(self, job: str) -> None:
        """Give up a job that is not committed: remove what workers have staged for it."""
        from sghash.collection.jobs import staging, tasks

        staging.discard(self._folder, tasks.check_job(job))

    def follow(self, plan: Plan | None) -> None:
        """Let searches without options follow a plan, durably; None is none."""
        with self._guard.lock:
            body = None if plan is None else plan.as_dict()
            writer = self._writable()
            self._change(lambda: writer.note(plan=body))

    def describe(self, **roles: str | None) -> None:
        """Say, durably, what is what to those who look at rows; what is left out is said no more.

        `image`, `text` and `label` name metadata columns: a picture's file or "data:" address, what
        to read, what to colour by. `picture` is the size of the picture that a vector is: "8x8".
        """
        with self._guard.lock:
            state = (writer := self._writable()).ready()
            known = check_roles(roles, state.manifest.width, state.kinds if len(state) else None)
            self._change(lambda: writer.note(roles=known))

    def reencode(self, new_model: Any, *, callback: Callback | None = None) -> None:
        """Replace the model, and all codes by those it makes of the kept vectors."""
        with self._guard.lock:
            writer = self._writable()
            self.model  # noqa: B018 - searches that go on with the old codes need it in memory
            new_model = stored_model.own_copy(new_model)
            changes = stored_model.place_new_model(self._folder, writer.ready().manifest, new_model)
            told = counting(callback, "encoding")
            encode = stored_model.encoder_of(new_model)
            build = builder_of(new_model, writer.state.manifest)
            self._change(
                lambda: writer.reencode(changes, encode, build=build, callback=told), new_model
            )

    def backup(
        self, path: str | os.PathLike[str], *, callback: Callback | None = None
    ) -> verification.Summary:
        """Copy the collection as it is at this moment to another folder, and verify the copy.

        Adding, deleting and searching may go on meanwhile, here and in other processes. A call
        that was interrupted is repeated with the same `path`, and goes on where it was; so is one
        that brings an earlier copy up to date. `callback` receives (rows done, rows in all).
        """
        told = counting(callback, "copying")
        return back_up(self._folder, self._moment, resolved(path), callback=told)

    def verify(self, *, callback: Callback | None = None) -> verification.Summary:
        """Read every byte and raise `BadFile` at the first that is wrong, else say what is there.

        `callback` receives (files done, files in all).
        """
        return verification.verify(self._folder, callback=counting(callback, "verifying", "file"))

    def _writable(self) -> Writer:
        if self._writer is None:
            raise StorageError("the collection is open for reading: open it with writable=True")
        return self._writer

    def _see(self, state: State, model: Any = None) -> None:
        """Let searches that begin from now on see another state: one assignment, whole or not."""
        self._moment = self._moment.following(self._folder, state, model)

    def _change(self, change: Callable[[], None], new_model: Any = None) -> None:
        """Make a change, and see what the writer then knows, also if the change failed."""
        writer = self._writable()
        try:
            change()
        finally:
            state = writer.state
            # A model that did not come to the disk must not be taken for the one that is there.
            fits = new_model is not None and new_model.fingerprint_ == state.manifest.fingerprint
            self._see(state, new_model if fits else None)

    def _append_vectors(
        self, vectors: Any, ids: Any, metadata: Any, *, replacing: bool, callback: Callback | None
    ) -> Ids:
        def append(array: Vectors, own: Any, columns: Mapping[str, Column]) -> Ids:
            state, holder = self._moment
            codes = holder.model.encode(array)
            made_by = state.manifest.fingerprint
            return self._append(array, codes, made_by, own, columns, replacing=replacing)

        self._writable()
        return append_vectors(
            append, self._moment.state, vectors, ids, metadata, replacing=replacing,
            callback=counting(callback, "adding"),
        )  # fmt: skip

    def _append(
        self, vectors: Vectors | None, codes: Codes, made_by: str, ids: Any,
        columns: Mapping[str, Column], *, replacing: bool,
    ) -> Ids:  # fmt: skip
        with self._guard.lock:
            writer = self._writable()
            # Ids come from here: memory may not know what an interrupted change has left.
            state = writer.ready()
            if made_by != state.manifest.fingerprint:
                # Another thread has replaced the model since the codes were made.
                self._see(state)
                if vectors is None:
                    answers.check_fingerprint(state, made_by)
                codes = self.model.encode(vectors)
            numbers, rows = new_rows(state, vectors, codes, ids, columns, replacing=replacing)
            if len(rows):
                self._change(lambda: writer.append(rows, replacing=replacing))
            return numbers
