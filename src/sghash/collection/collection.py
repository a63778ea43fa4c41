"""`Collection`: a model, the codes it made, and what belongs to them, in a folder on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource
from sghash.collection import search as stages, verification
from sghash.collection.choice import allowed_rows, ids_of, live_ids
from sghash.collection.columns import Column, columns_of
from sghash.collection.decoding import Decoder, decoder_of
from sghash.collection.incoming import append_vectors, new_rows
from sghash.collection.models import (
    encode_queries,
    first_manifest,
    load_checked,
    place_new_model,
)
from sghash.collection.ranges import hamming_within, pairs_within
from sghash.collection.records import Records, read_records
from sghash.collection.segments import Progress, View
from sghash.collection.stages import plan_stages
from sghash.collection.state import State, load_state
from sghash.collection.writer import Writer, create_folder
from sghash.errors import InvalidInput, StorageError
from sghash.neighbors import Neighbors, RangeNeighbors
from sghash.validation import (
    Codes,
    Ids,
    Vectors,
    check_codes,
    check_ids,
    check_k,
    check_radius,
    check_threads,
    check_vectors,
)


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
        manifest = first_manifest(model, keep_vectors=keep_vectors, metric=metric)
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

    def __exit__(self, *error: object) -> None:
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
        vectors: ArrayLike | VectorSource,
        ids: ArrayLike | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Ids:
        """Encode and add vectors (n, d); they are on the disk when this returns their ids.

        `ids` are whole numbers, or strings (keys) that get a new number each; without them rows
        get the next numbers never used before. `metadata` maps column names to n values each.
        Of an array all vectors are added, or none. A source or a memory map is read in blocks,
        each durable when `progress` receives (rows done, rows in all); if one fails, a note of
        the error tells how many vectors the blocks before it have added.
        """
        return self._append_vectors(vectors, ids, metadata, replacing=False, progress=progress)

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
        array = check_codes(codes, self.n_bits)
        return self._append(None, array, ids, columns_of(metadata, len(array)), replacing=False)

    def upsert(
        self,
        vectors: ArrayLike | VectorSource,
        ids: ArrayLike | Sequence[str],
        metadata: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Ids:
        """Like `add`, but a row that is there already is replaced, with its metadata.

        A string key keeps the number it had.
        """
        return self._append_vectors(vectors, ids, metadata, replacing=True, progress=progress)

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
        shortlist: int | str | tuple[int | str, int] | None = None,
        where: Any = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of each query (n_queries, d), nearest first.

        `rerank` says what decides: "none" the Hamming distance of the codes (int32), "decoder"
        the distance between the query and what the code stands for (float32), "vectors" the exact
        distance to the kept vector (float32). The latter two look at `shortlist` rows per query,
        the nearest by Hamming distance; None is 10 k, "all" lets the decoder score every row. For
        "vectors" it may be a pair: how many rows Hamming distance lets through ("all" for every
        one), and how many of these the decoder. `where` is a boolean mask over `ids`, a
        list of ids or keys, or a condition on metadata such as `"year >= 2000 and lang == 'de'"`.
        """
        plan = plan_stages(rerank, check_k(k), shortlist, self._state.manifest)
        array = check_vectors(queries, width=self._state.manifest.width, name="queries")
        state, views = self._snapshot()
        return stages.run_stages(
            plan,
            views,
            allowed_rows(where, state, views),
            array,
            encode_queries(self.model, array),
            decoder=self._linear_decoder() if plan.needs_decoder else None,
            metric=self.metric,
            n_bits=self.n_bits,
            threads=check_threads(threads),
        )

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
        return hamming_within(
            views,
            allowed_rows(where, state, views),
            encode_queries(self.model, array),
            check_radius(radius),
            n_bits=self.n_bits,
            threads=check_threads(threads),
        )

    def get(self, ids: ArrayLike | Sequence[str]) -> Records:
        """Return what is stored under these ids or keys, in the order given."""
        with self._guard:
            state = self._state
            return read_records(state, ids_of(ids, state), self.model)

    def compact(self, *, progress: Progress | None = None) -> None:
        """Bring all rows into one segment and drop what was deleted.

        `progress` receives (rows done, rows in all).
        """
        with self._guard:
            self._writable().compact(progress=progress)

    def reencode(self, new_model: Any, *, progress: Progress | None = None) -> None:
        """Replace the model, and all codes by those it makes of the kept vectors."""
        with self._guard:
            writer = self._writable()
            changes = place_new_model(self._folder, writer.state.manifest, new_model)
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
        return pairs_within(
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

    def _linear_decoder(self) -> Decoder:
        if self._decoder is None:
            self._decoder = decoder_of(self.model, self.metric)
        return self._decoder

    def _append_vectors(
        self, vectors: Any, ids: Any, metadata: Any, *, replacing: bool, progress: Progress | None
    ) -> Ids:
        def append(array: Vectors, own: Any, columns: Mapping[str, Column]) -> Ids:
            return self._append(array, self.model.encode(array), own, columns, replacing=replacing)

        return append_vectors(
            append, self._state, vectors, ids, metadata, replacing=replacing, progress=progress
        )

    def _append(
        self,
        vectors: Vectors | None,
        codes: Codes,
        ids: Any,
        columns: Mapping[str, Column],
        *,
        replacing: bool,
    ) -> Ids:
        with self._guard:
            writer = self._writable()
            numbers, rows = new_rows(
                writer.state, vectors, codes, ids, columns, replacing=replacing
            )
            if len(rows):
                writer.append(rows, replacing=replacing)
            return numbers
