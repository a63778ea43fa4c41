"""LangChain: a vector store over a collection, with texts and metadata beside the codes."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from sghash.adapters.frameworks.documents import (
    are_true_distances,
    delete_present,
    nearest_that_fit,
)
from sghash.collection import Collection
from sghash.collection.reading import Reading, Snapshot
from sghash.errors import InvalidInput
from sghash.models.baselines.lsh import LSH
from sghash.optional import require

_stores = require("langchain_core.vectorstores", extra="langchain")
_langchain_documents = require("langchain_core.documents", extra="langchain")

TEXT, METADATA = "text", "metadata"
#: Bits per document where nothing could be learned.
_BITS = 256
#: So many documents are enough to plan a collection by.
PLANNED_FROM = 1000

Condition = Callable[[Any], bool] | Mapping[str, Any] | str


class _Rows(NamedTuple):
    """Texts, metadata as JSON and keys, as many of each."""

    texts: list[str]
    about: list[str]
    keys: list[str]


def _rows_of(
    texts: list[str],
    metadatas: list[dict[str, Any]] | None,
    ids: Sequence[str | None] | None,
) -> _Rows:
    for name, values in (("metadatas", metadatas), ("ids", ids)):
        if values is not None and len(values) != len(texts):
            raise InvalidInput(f"got {len(values)} {name} for {len(texts)} texts")
    keys = [str(id_ or uuid.uuid4()) for id_ in (ids or [None] * len(texts))]
    try:
        about = [json.dumps(value or {}) for value in (metadatas or [{}] * len(texts))]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"metadata must be what JSON can hold ({error})") from error
    return _Rows(texts, about, keys)


def _last_of_each(keys: Sequence[str]) -> list[int]:
    """Of several documents with one id the last one, which is the one that stays."""
    return sorted({key: row for row, key in enumerate(keys)}.values())


def _columns(rows: _Rows, chosen: Sequence[int]) -> dict[str, list[str]]:
    return {
        TEXT: [rows.texts[row] for row in chosen],
        METADATA: [rows.about[row] for row in chosen],
    }


class SghashVectorStore(_stores.VectorStore):  # type: ignore[misc, name-defined]
    """Documents as codes in a `Collection`, found by code and ordered by what the codes allow.

    A document's text and metadata (as JSON) are columns of the collection, its id is the key.

    Parameters
    ----------
    collection : Collection
        Open for writing, to add and delete; its rows must have been added by such a store.
    embedding : Embeddings
        Makes vectors of texts; the same for the whole life of the collection.
    search_options : dict or None
        What `Collection.search` is given with every query, such as `{"target_recall": 0.95}`;
        None lets the kept vectors decide where there are any.
    """

    def __init__(
        self,
        collection: Collection,
        embedding: Any,
        *,
        search_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.collection, self._embedding = collection, embedding
        self._options = dict(search_options or {})

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Any,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        model: Any = None,
        **options: Any,
    ) -> Self:
        """Make a collection at `path` and add texts to it.

        From 1,000 texts on `Collection.build` plans it. With fewer, or with `options`, which are
        those of `Collection.create`, `model` makes the codes, fitted on vectors of this
        embedding; without one they are those of random projections, which need no training and
        more bits, and float32 vectors put them in order.
        """
        if path is None:
            raise InvalidInput("a collection is a folder: give from_texts its path")
        # What is wrong with them is said before anything is made.
        rows = _rows_of(list(texts), metadatas, ids)
        vectors = _vectors(embedding.embed_documents(list(texts))) if texts else None
        if vectors is not None and model is None and not options:
            last = _last_of_each(rows.keys)
            if len(last) >= PLANNED_FROM:
                keys = [rows.keys[row] for row in last]
                collection = Collection.build(
                    path, vectors[last], keys, _columns(rows, last), metric="cosine"
                )
                return cls(collection, embedding)
        if model is None:
            if vectors is None:
                raise InvalidInput("without texts nothing says how wide vectors are: give a model")
            model = LSH(_BITS, random_state=0).fit(vectors)
        options = {"keep_vectors": "float32", "metric": "cosine"} | options
        collection = Collection.create(path, model, **options)
        try:
            store = cls(collection, embedding)
            if vectors is not None:
                store._add(rows, vectors)
        except BaseException:
            collection.close()
            raise
        return store

    @property
    def embeddings(self) -> Any:
        """What makes vectors of texts."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **unused: Any,
    ) -> list[str]:
        """Embed and add texts, durably; a text whose id is there already replaces it."""
        given = list(texts)
        if not given:
            return []
        rows = _rows_of(given, metadatas, ids)
        return self._add(rows, _vectors(self._embedding.embed_documents(given)))

    def add_documents(self, documents: list[Any], **options: Any) -> list[str]:
        """Add documents under their ids, or new ones."""
        ids = options.pop("ids", None) or [document.id for document in documents]
        texts = [document.page_content for document in documents]
        return self.add_texts(texts, [document.metadata for document in documents], ids=ids)

    def _add(self, rows: _Rows, vectors: Any) -> list[str]:
        last = _last_of_each(rows.keys)
        keys = [rows.keys[row] for row in last]
        self.collection.upsert(vectors[last], keys, _columns(rows, last))
        return rows.keys

    def delete(self, ids: list[str] | None = None, **unused: Any) -> bool:
        """Delete documents; None deletes all. Ids that are not there are passed over."""
        if ids is None:
            delete_present(self.collection, self.collection.ids)
        else:
            known = [id_ for id_ in dict.fromkeys(ids) if id_ in self.collection]
            delete_present(self.collection, known)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Any]:
        """The documents with these ids; those that are not there are left out."""
        moment = Snapshot(self.collection)
        known = [id_ for id_ in ids if id_ in moment]
        return self._documents(moment, known) if known else []

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Condition | None = None, **unused: Any
    ) -> list[Any]:
        """The k documents nearest to a text; `filter` as in `similarity_search_with_score`."""
        return [found for found, _ in self.similarity_search_with_score(query, k, filter=filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Condition | None = None, **unused: Any
    ) -> list[tuple[Any, float]]:
        """The k documents nearest to a text, with their distances.

        `filter` is a function of a document, or a dictionary of metadata that must be equal, or a
        condition on columns of the collection (`"year > 2000"`).
        """
        return self._nearest(self._embedding.embed_query(query), k, filter)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Condition | None = None, **unused: Any
    ) -> list[Any]:
        """The k documents nearest to a vector."""
        return [found for found, _ in self._nearest(embedding, k, filter)]

    def _nearest(
        self, vector: Sequence[float], k: int, condition: Condition | None
    ) -> list[tuple[Any, float]]:
        where, test = (condition, None) if isinstance(condition, str) else (None, condition)
        return nearest_that_fit(
            self.collection, vector, k, self._documents, _test_of(test), where=where,
            **self._options,
        )  # fmt: skip

    def _documents(self, moment: Reading, ids: Any) -> list[Any]:
        records = moment.get(ids)
        if not {TEXT, METADATA} <= set(records.metadata):
            raise InvalidInput("the collection holds rows that were not added as documents")
        rows = zip(records.keys, records.metadata[TEXT], records.metadata[METADATA], strict=True)
        return [
            _langchain_documents.Document(
                id=key, page_content=text or "", metadata=json.loads(about or "{}")
            )
            for key, text, about in rows
        ]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        if self.collection.metric == "cosine" and are_true_distances(
            self.collection, self._options
        ):
            return lambda distance: min(1.0, max(0.0, 1.0 - distance / 2))
        return lambda distance: 1.0 / (1.0 + max(distance, 0.0))


def _test_of(condition: Callable[[Any], bool] | Mapping[str, Any] | None) -> Callable[[Any], bool]:
    if condition is None:
        return lambda document: True
    if isinstance(condition, Mapping):
        wanted = dict(condition)
        return lambda document: all(
            name in document.metadata and document.metadata[name] == value
            for name, value in wanted.items()
        )
    if callable(condition):
        return condition
    raise InvalidInput(f"filter must be a function, a dictionary or a text, got {condition!r}")


def _vectors(rows: Any) -> Any:
    return np.asarray(rows, dtype=np.float32)
