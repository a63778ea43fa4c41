"""LlamaIndex, through its own `VectorStoreIndex`."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
core = pytest.importorskip("llama_index.core", reason="needs llama-index-core")
from llama_index.core.embeddings import BaseEmbedding  # noqa: E402
from llama_index.core.schema import (  # noqa: E402
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import (  # noqa: E402
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode  # noqa: E402

from sghash import Collection, InvalidInput  # noqa: E402
from sghash.adapters.frameworks import llama_index  # noqa: E402
from sghash.adapters.frameworks.llama_index import SghashLlamaStore  # noqa: E402

WIDTH = 24


class Embedding(BaseEmbedding):
    """A direction of its own for each text."""

    def _get_text_embedding(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(WIDTH).tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def node(number):
    made = TextNode(
        id_=f"node-{number}",
        text=f"text {number}",
        metadata={
            "number": number,
            "even": "yes" if number % 2 == 0 else "no",
            "tags": ["a", f"t{number % 3}"],
        },
        excluded_embed_metadata_keys=["number", "even", "tags"],
    )
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"doc-{number // 10}")
    return made


@pytest.fixture
def store(tmp_path):
    made = SghashLlamaStore.at(tmp_path / "store", width=WIDTH)
    yield made
    made.client.close()


@pytest.fixture
def index(store):
    made = core.VectorStoreIndex.from_vector_store(store, embed_model=Embedding())
    made.insert_nodes([node(number) for number in range(60)])
    return made


def filters(*conditions, how=FilterCondition.AND):
    made = [MetadataFilter(key=k, operator=o, value=v) for k, o, v in conditions]
    return MetadataFilters(filters=made, condition=how)


def ids_of(found):
    return [hit.node.node_id for hit in found]


def test_a_text_is_found_as_it_was(index):
    hits = index.as_retriever(similarity_top_k=3).retrieve("text 7")
    assert hits[0].node.node_id == "node-7" and hits[0].score == pytest.approx(1, abs=1e-4)
    assert hits[0].node.get_content() == "text 7" and hits[0].node.ref_doc_id == "doc-0"
    assert hits[0].node.metadata == {"number": 7, "even": "no", "tags": ["a", "t1"]}
    assert hits[0].score >= hits[1].score >= hits[2].score


EVEN, ABOVE = ("even", FilterOperator.EQ, "yes"), ("number", FilterOperator.GT, 40)


@pytest.mark.parametrize(
    ("chosen", "right"),
    [
        (filters(EVEN), lambda n: n % 2 == 0),
        (filters(EVEN, ABOVE), lambda n: n % 2 == 0 and n > 40),
        (filters(EVEN, ABOVE, how=FilterCondition.OR), lambda n: n % 2 == 0 or n > 40),
        (filters(("number", FilterOperator.IN, [3, 5])), lambda n: n in (3, 5)),
        (filters(("number", FilterOperator.NE, 3)), lambda n: n != 3),
        (filters(("tags", FilterOperator.CONTAINS, "t2")), lambda n: n % 3 == 2),
        (filters(("ref_doc_id", FilterOperator.EQ, "doc-2")), lambda n: n // 10 == 2),
        (filters(("none", FilterOperator.EQ, 1)), lambda n: False),
    ],
)
def test_filters_are_exact(index, chosen, right):
    everyone = ids_of(index.as_retriever(similarity_top_k=60).retrieve("text 9"))
    assert len(everyone) == 60
    wanted = [name for name in everyone if right(int(name.split("-")[1]))]
    found = index.as_retriever(similarity_top_k=5, filters=chosen).retrieve("text 9")
    assert ids_of(found) == wanted[:5]


def test_documents_and_nodes_are_deleted(index, store):
    index.delete_ref_doc("doc-3")
    index.delete_ref_doc("never")
    assert len(store.client) == 50
    assert not [name for name in ids_of(index.as_retriever(similarity_top_k=60).retrieve("x"))
                if 30 <= int(name.split("-")[1]) < 40]  # fmt: skip
    store.delete_nodes([])
    index.delete_nodes(["node-1", "node-2"])
    store.delete_nodes(filters=filters(ABOVE))
    left = {node.node_id for node in store.get_nodes()}
    assert left == {f"node-{n}" for n in (0, *range(3, 30), 40)}
    assert [n.node_id for n in store.get_nodes(["node-5", "node-1"])] == ["node-5"]
    assert store.get_nodes([5, None]) == []
    store.clear()
    assert len(store.client) == 0 and index.as_retriever().retrieve("text 1") == []


async def test_beside_other_tasks(index, store):
    hits = await index.as_retriever(similarity_top_k=1).aretrieve("text 12")
    assert ids_of(hits) == ["node-12"]
    assert await store.async_add([node(90).model_copy(update={"embedding": [0.0] * 23 + [1.0]})])
    assert [n.node_id for n in await store.aget_nodes(["node-90"])] == ["node-90"]
    await index.adelete_ref_doc("doc-9")
    assert await store.aget_nodes(["node-90"]) == []
    await store.adelete_nodes(["node-12"])
    assert len(store.client) == 59
    await store.aclear()
    assert len(store.client) == 0


def test_a_store_is_found_again_and_nodes_replaced(index, store, tmp_path):
    index.insert_nodes([TextNode(id_="node-0", text="changed")])
    store.client.close()
    with Collection.open(tmp_path / "store") as again:
        opened = SghashLlamaStore(again)
        asked = core.VectorStoreIndex.from_vector_store(opened, embed_model=Embedding())
        hit = asked.as_retriever(similarity_top_k=1).retrieve("changed")[0]
        assert hit.node.node_id == "node-0" and hit.node.get_content() == "changed"
        assert len(again) == 60


def test_queries_for_some_documents_or_nodes(index, store):
    embedding = Embedding().get_query_embedding("text 9")
    found = store.query(VectorStoreQuery(embedding, similarity_top_k=99, doc_ids=["doc-1"]))
    assert sorted(found.ids) == [f"node-{n}" for n in range(10, 20)]
    found = store.query(VectorStoreQuery(embedding, similarity_top_k=9, node_ids=["node-3"]))
    assert found.ids == ["node-3"] and found.nodes[0].get_content() == "text 3"


def test_bad_input_is_a_sentence(store, tmp_path):
    for call, sentence in (
        (lambda: store.add([node(1)]), "needs its embedding"),
        (lambda: store.query(VectorStoreQuery(None)), "no embedding"),
        (store.delete_nodes, "deleted by clear"),
        (
            lambda: store.query(VectorStoreQuery([0.0], mode=VectorStoreQueryMode.MMR)),
            "mode",
        ),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            call()
    assert len(store.client) == 0 and store.add([]) == []
    store.client.add(np.ones((1, WIDTH), np.float32))
    with pytest.raises(InvalidInput, match="not added as nodes"):
        store.get_nodes()


def test_only_what_is_asked_for_is_read(index, store, monkeypatch):
    read = []
    plain = llama_index.read_records

    def counted(state, ids, model, wanted):
        read.append((len(ids), wanted))
        return plain(state, ids, model, wanted)

    monkeypatch.setattr(llama_index, "read_records", counted)
    assert [n.node_id for n in store.get_nodes(["node-7", "never", "node-7"])] == ["node-7"]
    store.delete_nodes(["node-7"])
    assert read == [(1, ("metadata",))] * 2
    store.delete("doc-1")
    store.delete("")
    assert read == [(1, ("metadata",))] * 2 and len(store.client) == 49


def test_similarities_are_cosines_whether_a_plan_says_how_to_search_or_not(index, store, tmp_path):
    nodes = [n.model_copy(update={"embedding": Embedding().get_text_embedding(n.get_content())})
             for n in map(node, range(60))]  # fmt: skip
    vectors = np.asarray([n.embedding for n in nodes], dtype=np.float32)
    asked = VectorStoreQuery(nodes[9].embedding, similarity_top_k=5)
    first = store.query(asked)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = np.sort(unit @ unit[9])[::-1][:5]
    np.testing.assert_allclose(first.similarities, cosines, atol=1e-5)
    with Collection.build(tmp_path / "built", vectors, metric="cosine") as built:
        assert built.plan is not None
        built.delete(built.ids)
        planned = SghashLlamaStore(built)
        planned.add(nodes)
        np.testing.assert_allclose(planned.query(asked).similarities, cosines, atol=0.02)
