"""`Collection`: a model, the codes it made, and what belongs to them, in a folder on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.collection import search as stages
from sghash.collection import verification
from sghash.collection.choice import allowed_rows, ids_of, live_ids
from sghash.collection.decoding import Decoder, decoder_of
from sghash.collection.incoming import new_rows
from sghash.collection.manifest import Manifest
from sghash.collection.models import check_model, load_checked, model_files, model_folder
from sghash.collection.segments import Progress, View
from sghash.collection.state import State, load_state
from sghash.collection.writer import Writer, create_folder
from sghash.errors import InvalidInput, StorageError
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import (
    Codes,
    Ids,
    Vectors,
    check_choice,
    check_codes,
    check_ids,
    check_k,
    check_radius,
    check_threads,
    check_vectors,
)

KEPT = ("float16", "float32")
RERANKS = ("none", "decoder", "vectors")


class Records(NamedTuple):
    """What `get` returns, one entry per id asked for; None stands for what is not kept."""

    ids: Ids
    keys: list[str | None]
    codes: Codes
    reconstructions: Vectors | None
    vectors: NDArray[Any] | None
    metadata: dict[str, list[Any]]


class Collection:
    """Vectors as codes in a folder: added durably, searched exactly, shared between processes.

    Make one with `create`, come back with `open`. One process may write, any number may read;
    a reader sees the collection as it was when it opened it or last called `refresh`.
    """

    def __init__(self, folder: Path, *, writer: Writer | None, model: Any = None) -> None:
        self._folder, self._writer, self._model = folder, writer, model
        self._guard = threading.RLock()
        self._read = load_state(folder) if writer is None else writer.state
        self._decoder: Decoder | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        model: Any,
        *,
        keep_vectors: str | None = None,
        metric: str | None = None,
    ) -> Self:
        """Make a new collection for the codes of a fitted `model`, open for writing.

        `keep_vectors` ("float16" or "float32") stores the vectors beside their codes, for exact
        distances and `reencode`. `metric` ("l2", "ip" or "cosine") is what `rerank` scores; None
        is the model's own, or "l2" if it has none.
        """
        folder = Path(path)
        check_model(model)
        if keep_vectors is not None:
            check_choice(keep_vectors, KEPT, name="keep_vectors")
        metric = metric or getattr(model, "metric", None) or "l2"
        manifest = Manifest(
            n_bits=model.n_bits,
            width=model.n_features_in_,
            metric=check_choice(metric, ("l2", "ip", "cosine"), name="metric"),
            keep_vectors=keep_vectors,
            fingerprint=model.fingerprint_,
            model=model_folder(model),
            model_files={},
            log="log-00000000",
        )
        create_folder(folder, manifest, model)
        return cls(folder, writer=Writer(folder), model=model)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, writable: bool = False, model: Any = None
    ) -> Self:
        """Open a collection; nothing is read yet but what is needed to find the rest.

        Only one process may open it with `writable`. A `model` given here must be the one the
        codes were made with; without it the model stored in the collection is used.
        """
        folder = Path(path)
        collection = cls(folder, writer=Writer(folder) if writable else None)
        if model is not None:
            try:
                collection.check_fingerprint(model.fingerprint_)
            except BaseException:
                collection.close()
                raise
            collection._model = model
        return collection

    def close(self) -> None:
        """Give up the right to write; a closed writer can still read."""
        with self._guard:
            if self._writer is not None:
                self._read = self._writer.state
                self._writer.close()
                self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with self._guard:
            return len(self._state)

    def __contains__(self, id_: object) -> bool:
        with self._guard:
            if isinstance(id_, str):
                return bool(self._state.find_keys([id_])[0] >= 0)
            return bool(self._state.find(check_ids(np.asarray([id_]))).segments[0] >= 0)

    def __repr__(self) -> str:
        return f"Collection({str(self._folder)!r}) with {len(self)} codes of {self.n_bits} bits"

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self._state.manifest.n_bits

    @property
    def metric(self) -> str:
        """What `rerank` scores: "l2", "ip" or "cosine"."""
        return self._state.manifest.metric

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the codes."""
        return self._state.manifest.fingerprint

    @property
    def ids(self) -> Ids:
        """All ids, rising; a boolean `where` is aligned with them."""
        return live_ids(self._snapshot()[1])

    @property
    def model(self) -> Any:
        """The model that made the codes; read from the folder, and checked, when first needed."""
        if self._model is None:
            self._model = load_checked(self._folder, self._state.manifest)
        return self._model

    def refresh(self) -> int:
        """See what other processes have done since; returns the number of rows."""
        with self._guard:
            if self._writer is None:
                before = self._read.manifest.fingerprint
                self._read = load_state(self._folder, self._read)
                if self._read.manifest.fingerprint != before:
                    self._model = self._decoder = None
            return len(self._state)

    def check_fingerprint(self, fingerprint: str) -> None:
        """Refuse codes of another model than the one the collection was made with."""
        if fingerprint != self.fingerprint:
            raise InvalidInput(
                f"the collection holds codes of the model {self.fingerprint[:12]}, these come from "
                f"{fingerprint[:12]}: encode with the collection's own model"
            )

    def add(
        self,
        vectors: ArrayLike,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Ids:
        """Encode and add vectors (n, d); they are on the disk when this returns their ids.

        `ids` are whole numbers, or strings (keys) that get a new number each; without them rows
        get the next numbers never used before. `metadata` maps column names to n values each.
        All of the vectors are added, or none.
        """
        array = self._vectors(vectors)
        return self._append(array, self.model.encode(array), ids, metadata, replacing=False)

    def add_codes(
        self,
        codes: ArrayLike,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        fingerprint: str,
    ) -> Ids:
        """Add codes made elsewhere by the model of this `fingerprint`, which must be the same."""
        self.check_fingerprint(fingerprint)
        if self._state.manifest.keep_vectors is not None:
            raise InvalidInput("this collection keeps vectors: add the vectors, not their codes")
        return self._append(None, check_codes(codes, self.n_bits), ids, metadata, replacing=False)

    def upsert(
        self,
        vectors: ArrayLike,
        ids: ArrayLike | Sequence[str],
        metadata: Mapping[str, Any] | None = None,
    ) -> Ids:
        """Like `add`, but a row that is there already is replaced, with its metadata.

        A string key keeps the number it had.
        """
        array = self._vectors(vectors)
        return self._append(array, self.model.encode(array), ids, metadata, replacing=True)

    def delete(self, ids: ArrayLike | Sequence[str]) -> None:
        """Delete rows by id or key, durably; all other ids stay as they are."""
        with self._guard:
            writer = self._writable()
            chosen = np.unique(ids_of(ids, writer.state))
            if len(chosen):
                writer.delete(chosen)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        rerank: str = "none",
        shortlist: int | None = None,
        where: Any = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of each query (n_queries, d), nearest first.

        `rerank` says what decides: "none" the Hamming distance of the codes (int32), "decoder"
        the distance between the query and what the code stands for (float32), "vectors" the exact
        distance to the kept vector (float32). The later two look at `shortlist` rows per query,
        the nearest by Hamming distance; None is 10 k. `where` is a boolean mask over `ids`, a
        list of ids or keys, or a condition on metadata such as `"year >= 2000 and lang == 'de'"`.
        """
        check_choice(rerank, RERANKS, name="rerank")
        n_threads, n_wanted = check_threads(threads), check_k(k)
        array = check_vectors(queries, width=self._state.manifest.width, name="queries")
        query_codes = self.model.encode(array)
        length = n_wanted if rerank == "none" else self._shortlist(shortlist, n_wanted)
        if rerank == "vectors" and self._state.manifest.keep_vectors is None:
            raise InvalidInput(
                'no vectors are kept here: search with rerank="decoder", or create the collection '
                'with keep_vectors="float16"'
            )
        state, views = self._snapshot()
        found = stages.hamming_candidates(
            views, allowed_rows(where, state, views), query_codes,
            n_wanted if rerank == "none" else 2 * length, n_bits=self.n_bits, threads=n_threads,
        )  # fmt: skip
        if rerank == "none" or not views:
            return stages.answer(found, n_wanted)
        found = stages.with_ties(found, length)
        if rerank == "decoder":
            scores = stages.decoder_scores(views, found, self._linear_decoder(), array, n_threads)
        else:
            scores = stages.vector_scores(views, found, array, self.metric)
        return stages.answer(stages.ordered(found, scores, n_wanted), n_wanted)

    def search_codes(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        *,
        fingerprint: str,
        where: Any = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Like `search` without reranking, for codes made by the model of this `fingerprint`."""
        self.check_fingerprint(fingerprint)
        state, views = self._snapshot()
        found = stages.hamming_candidates(
            views,
            allowed_rows(where, state, views),
            check_codes(query_codes, self.n_bits, name="query_codes"),
            check_k(k),
            n_bits=self.n_bits,
            threads=check_threads(threads),
        )
        return stages.answer(found, k)

    def range_search(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        where: Any = None,
        threads: int | None = None,
    ) -> RangeNeighbors:
        """Return all rows whose code differs from the query's in at most `radius` bits."""
        array = check_vectors(queries, width=self._state.manifest.width, name="queries")
        state, views = self._snapshot()
        return stages.hamming_within(
            views,
            allowed_rows(where, state, views),
            self.model.encode(array),
            check_radius(radius),
            n_bits=self.n_bits,
            threads=check_threads(threads),
        )

    def get(self, ids: ArrayLike | Sequence[str]) -> Records:
        """Return what is stored under these ids or keys, in the order given."""
        with self._guard:
            state = self._state
            chosen = ids_of(ids, state)
            owners, rows = state.find(chosen)
            segments = state.segments()
        found = stages.Candidates(chosen[None], chosen[None], owners[None], rows[None])
        codes = stages.gather([s.rows.codes for s in segments], found)[0]
        vectors = None
        if state.manifest.keep_vectors is not None:
            kept = [s.rows.vectors for s in segments if s.rows.vectors is not None]
            vectors = stages.gather(kept, found)[0]
        keys: list[str | None] = []
        metadata: dict[str, list[Any]] = {name: [] for name in sorted(state.kinds)}
        for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
            part = segments[owner].rows
            keys.append((part.keys.at(row) or None) if part.keys is not None else None)
            for name, values in metadata.items():
                column = part.columns.get(name)
                values.append(None if column is None else column.at(row))
        return Records(chosen, keys, codes, self._reconstructions(codes), vectors, metadata)

    def compact(self, *, progress: Progress | None = None) -> None:
        """Bring all rows into one segment and drop what was deleted.

        `progress` receives (rows done, rows in all).
        """
        with self._guard:
            self._writable().compact(progress=progress)

    def reencode(self, new_model: Any, *, progress: Progress | None = None) -> None:
        """Replace the model, and all codes by those it makes of the kept vectors."""
        check_model(new_model)
        with self._guard:
            writer = self._writable()
            manifest = writer.state.manifest
            if manifest.keep_vectors is None:
                raise InvalidInput(
                    "no vectors are kept here, and codes cannot be made of codes: create a new "
                    "collection with the new model and add the vectors again"
                )
            if new_model.n_features_in_ != manifest.width:
                raise InvalidInput(
                    f"the new model takes vectors of {new_model.n_features_in_} columns, "
                    f"the collection keeps {manifest.width}"
                )
            name = model_folder(new_model)
            new_model.save(self._folder / name, overwrite=True)
            changes = {
                "n_bits": new_model.n_bits,
                "fingerprint": new_model.fingerprint_,
                "model": name,
                "model_files": model_files(self._folder / name),
            }
            writer.reencode(
                changes, lambda block: new_model.encode(block.astype(np.float32)), progress=progress
            )
            self._model, self._decoder = new_model, None

    def similarity_join(
        self, radius: int, *, threads: int | None = None, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Return all pairs of rows whose codes differ in at most `radius` bits.

        One row per pair, (n_pairs, 3) int64: the smaller id, the larger id, the distance; by ids.
        """
        return stages.pairs_within(
            self._snapshot()[1],
            check_radius(radius),
            n_bits=self.n_bits,
            threads=check_threads(threads),
            progress=progress,
        )

    def verify(self, *, progress: Progress | None = None) -> verification.Summary:
        """Read every byte and raise `BadFile` at the first that is wrong, else tell what is there.

        `progress` receives (files done, files in all).
        """
        return verification.verify(self._folder, progress=progress)

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes: rows, deleted rows, segments, bytes on disk and per row."""
        with self._guard:
            return verification.stats(self._folder, self._state)

    @property
    def _state(self) -> State:
        return self._read if self._writer is None else self._writer.state

    def _writable(self) -> Writer:
        if self._writer is None:
            raise StorageError("the collection is open for reading: open it with writable=True")
        return self._writer

    def _snapshot(self) -> tuple[State, list[View]]:
        with self._guard:
            return self._state, self._state.views()

    def _vectors(self, vectors: ArrayLike) -> Vectors:
        return check_vectors(vectors, width=self._state.manifest.width)

    def _linear_decoder(self) -> Decoder:
        if self._decoder is None:
            self._decoder = decoder_of(self.model, self.metric)
        return self._decoder

    def _reconstructions(self, codes: Codes) -> Vectors | None:
        try:
            decoded: Vectors = self.model.decode(codes)
        except InvalidInput:
            return None
        return decoded

    def _shortlist(self, shortlist: int | None, k: int) -> int:
        if shortlist is None:
            return 10 * k
        if isinstance(shortlist, bool) or not isinstance(shortlist, (int, np.integer)):
            raise InvalidInput(f"shortlist must be a whole number or None, got {shortlist!r}")
        if shortlist < k:
            raise InvalidInput(f"a shortlist of {shortlist} cannot give {k} neighbours")
        return int(shortlist)

    def _append(
        self,
        vectors: Vectors | None,
        codes: Codes,
        ids: Any,
        metadata: Mapping[str, Any] | None,
        *,
        replacing: bool,
    ) -> Ids:
        with self._guard:
            writer = self._writable()
            numbers, rows = new_rows(
                writer.state, vectors, codes, ids, metadata, replacing=replacing
            )
            if len(rows):
                writer.append(rows, replacing=replacing)
            return numbers
