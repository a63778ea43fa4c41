"""LlamaIndex: a vector store over a collection, for `VectorStoreIndex`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sghash.adapters.frameworks.documents import (
    are_true_distances,
    delete_present,
    nearest_that_fit,
)
from sghash.collection import Collection
from sghash.collection.reading import Reading, Snapshot
from sghash.collection.records import read_records
from sghash.collection.where.choice import ids_of, ids_where
from sghash.collection.where.grammar import Comparison
from sghash.errors import InvalidInput
from sghash.models.baselines.lsh import LSH
from sghash.optional import require

_types = require("llama_index.core.vector_stores.types", extra="llama-index")
_tools = require("llama_index.core.vector_stores.utils", extra="llama-index")
_pydantic = require("pydantic", extra="llama-index")

#: The columns of the collection.
TEXT, NODE, DOCUMENT = "text", "node", "ref_doc_id"
_BITS = 256


class _Stored(NamedTuple):
    key: str
    node: Any


class SghashLlamaStore(_types.BasePydanticVectorStore):  # type: ignore[misc, name-defined]
    """Nodes as codes in a `Collection`; a node's text, its JSON and `ref_doc_id` are columns.

    Parameters
    ----------
    collection : Collection
        Open for writing, to add and delete; its rows must have been added by such a store.
    search_options : dict or None
        What `Collection.search` is given with every query; None lets kept vectors decide.
    """

    stores_text: bool = True
    flat_metadata: bool = False
    _collection: Any = _pydantic.PrivateAttr()
    _options: dict[str, Any] = _pydantic.PrivateAttr()

    def __init__(
        self, collection: Collection, *, search_options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._collection = collection
        self._options = dict(search_options or {})

    @classmethod
    def at(
        cls, path: str | os.PathLike[str], *, width: int, model: Any = None, **options: Any
    ) -> SghashLlamaStore:
        """Make a collection at `path` for embeddings of `width` numbers.

        Without a fitted `model`, codes are random projections, which need no training; kept
        vectors put what they find in order. `options` are those of `Collection.create`.
        """
        if model is None:
            model = LSH(_BITS, random_state=0).fit(np.eye(2, width, dtype=np.float32))
        options = {"keep_vectors": "float32", "metric": "cosine"} | options
        return cls(Collection.create(path, model, **options))

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows the class."""
        return "SghashLlamaStore"

    @property
    def client(self) -> Collection:
        """The collection."""
        collection: Collection = self._collection
        return collection

    def add(self, nodes: Sequence[Any], **unused: Any) -> list[str]:
        """Add nodes with their embeddings, durably; a node whose id is there replaces it."""
        last = {node.node_id: node for node in nodes}
        if not last:
            return []
        rows = list(last.values())
        if any(node.embedding is None for node in rows):
            raise InvalidInput("every node needs its embedding: add nodes by a VectorStoreIndex")
        vectors = np.asarray([node.embedding for node in rows], dtype=np.float32)
        columns = {
            TEXT: [node.get_content(_metadata_mode("NONE")) for node in rows],
            NODE: [
                json.dumps(_tools.node_to_metadata_dict(node, remove_text=True)) for node in rows
            ],
            DOCUMENT: [node.ref_doc_id or "" for node in rows],
        }
        self.client.upsert(vectors, list(last), columns)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **unused: Any) -> None:
        """Delete the nodes of a document; a document that is not there is passed over."""
        state = self.client.moment.state
        if not ref_doc_id or DOCUMENT not in state.kinds:
            return
        delete_present(self.client, ids_where(Comparison(DOCUMENT, "==", ref_doc_id), state))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: Any = None, **unused: Any
    ) -> None:
        """Delete the nodes with these ids that fit the filters, of which one must be given."""
        if node_ids is None and filters is None:
            raise InvalidInput("give ids or filters; all nodes are deleted by clear")
        moment, fits = Snapshot(self.client), _test_of(filters, None, None)
        ids = _ids(moment, node_ids)
        chosen = np.asarray([fits(stored) for stored in self._read(moment, ids)], dtype=np.bool_)
        delete_present(self.client, ids[chosen])

    def clear(self) -> None:
        """Delete all nodes."""
        delete_present(self.client, self.client.ids)

    def get_nodes(self, node_ids: list[str] | None = None, filters: Any = None) -> list[Any]:
        """The nodes with these ids, or those that fit the filters."""
        moment, fits = Snapshot(self.client), _test_of(filters, None, None)
        stored = self._read(moment, _ids(moment, node_ids))
        return [one.node for one in stored if fits(one)]

    def query(self, query: Any, **unused: Any) -> Any:
        """The nodes nearest to `query.query_embedding`, among those that fit its filters."""
        modes = _types.VectorStoreQueryMode
        if query.mode != modes.DEFAULT:
            raise InvalidInput(f"this store answers queries of mode {modes.DEFAULT}: leave it out")
        if query.query_embedding is None:
            raise InvalidInput("the query has no embedding: ask by a VectorStoreIndex")
        # A VectorStoreIndex that leaves texts to the store says of no ids that it means all.
        fits = _test_of(query.filters, query.node_ids or None, query.doc_ids or None)
        found = nearest_that_fit(
            self.client, query.query_embedding, query.similarity_top_k, self._read, fits,
            **self._options,
        )  # fmt: skip
        return _types.VectorStoreQueryResult(
            nodes=[stored.node for stored, _ in found],
            similarities=[self._similarity(distance) for _, distance in found],
            ids=[stored.key for stored, _ in found],
        )

    async def async_add(self, nodes: Sequence[Any], **unused: Any) -> list[str]:
        """`add`, beside other tasks."""
        return await asyncio.to_thread(self.add, nodes)

    async def adelete(self, ref_doc_id: str, **unused: Any) -> None:
        """`delete`, beside other tasks."""
        await asyncio.to_thread(self.delete, ref_doc_id)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: Any = None, **unused: Any
    ) -> None:
        """`delete_nodes`, beside other tasks."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        """`clear`, beside other tasks."""
        await asyncio.to_thread(self.clear)

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: Any = None) -> list[Any]:
        """`get_nodes`, beside other tasks."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def aquery(self, query: Any, **unused: Any) -> Any:
        """`query`, beside other tasks."""
        return await asyncio.to_thread(self.query, query)

    def _similarity(self, distance: float) -> float:
        if self.client.metric == "cosine" and are_true_distances(self.client, self._options):
            return 1.0 - distance
        return 1.0 / (1.0 + max(distance, 0.0))

    def _read(self, moment: Reading, ids: Any) -> list[_Stored]:
        state, holder = moment.moment
        records = read_records(state, ids_of(ids, state), holder.model, ("metadata",))
        if len(ids) and not {TEXT, NODE} <= set(records.metadata):
            raise InvalidInput("the collection holds rows that were not added as nodes")
        columns = [records.metadata.get(name, []) for name in (TEXT, NODE)]
        return [
            _Stored(str(key), _tools.metadata_dict_to_node(json.loads(body or "{}"), text=text))
            for key, text, body in zip(records.keys, *columns, strict=True)
        ]


def _ids(moment: Reading, node_ids: Sequence[str] | None) -> Any:
    """Ids of the nodes that are there, in the order of the collection; of all for None."""
    if node_ids is None:
        return moment.ids
    known = [id_ for id_ in dict.fromkeys(node_ids) if isinstance(id_, str)]
    found = moment.moment.state.find_keys(known)
    return np.sort(found[found >= 0])


def _metadata_mode(name: str) -> Any:
    return require("llama_index.core.schema", extra="llama-index").MetadataMode[name]


def _test_of(
    filters: Any, node_ids: Sequence[str] | None, document_ids: Sequence[str] | None
) -> Callable[[_Stored], bool]:
    """Whether a node fits all that is given."""
    nodes = None if node_ids is None else set(node_ids)
    owners = None if document_ids is None else set(document_ids)

    def fits(stored: _Stored) -> bool:
        if nodes is not None and stored.key not in nodes:
            return False
        if owners is not None and stored.node.ref_doc_id not in owners:
            return False
        if filters is None:
            return True
        # What a filter means is LlamaIndex's affair.
        about = {**stored.node.metadata, DOCUMENT: stored.node.ref_doc_id}
        return bool(_tools.build_metadata_filter_fn(lambda _: about, filters)(stored.key))

    return fits
