"""LangChain's published tests of a vector store, and what they do not ask."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.adapters
tests = pytest.importorskip("langchain_tests.integration_tests", reason="needs langchain-tests")
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402

from sghash import Collection, InvalidInput, load_dataset  # noqa: E402
from sghash.adapters.frameworks.langchain import PLANNED_FROM, SghashVectorStore  # noqa: E402
from sghash.models import LSH  # noqa: E402


def model_for(width):
    return LSH(64, random_state=0).fit(np.eye(width, dtype=np.float32))


class TestStandard(tests.VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        made = Collection.create(tmp_path / "store", model_for(6), keep_vectors="float32")
        with made as collection:
            yield SghashVectorStore(collection, self.get_embeddings())


@pytest.fixture
def store(tmp_path):
    texts = [f"text {number}" for number in range(60)]
    about = [{"number": number, "even": number % 2 == 0} for number in range(60)]
    ids = [f"id-{number}" for number in range(60)]
    made = SghashVectorStore.from_texts(
        texts, DeterministicFakeEmbedding(size=16), about, ids=ids, path=tmp_path / "store"
    )
    yield made
    made.collection.close()


def test_filters_are_exact(store):
    plain = store.similarity_search("text 7", k=60)
    assert len(plain) == 60 and plain[0].page_content == "text 7"
    for condition in ({"even": True}, lambda document: document.metadata["even"]):
        found = store.similarity_search("text 7", k=5, filter=condition)
        assert found == [document for document in plain if document.metadata["even"]][:5]
    assert store.similarity_search("text 7", k=3, filter={"number": 7})[0].id == "id-7"
    assert store.similarity_search("text 7", k=3, filter={"none": None}) == []
    by_column = store.similarity_search("text 7", k=3, filter="text == 'text 9'")
    assert [document.id for document in by_column] == ["id-9"]
    with pytest.raises(InvalidInput, match="filter must be"):
        store.similarity_search("text 7", filter=3)


def test_scores_and_retrievers(store):
    (best, distance), *_ = store.similarity_search_with_score("text 3", k=2)
    assert best.id == "id-3" and distance == pytest.approx(0, abs=1e-5)
    (_, score), *_ = store.similarity_search_with_relevance_scores("text 3", k=2)
    assert score == pytest.approx(1, abs=1e-4)
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("text 5")[0].id == "id-5"


def test_scores_by_codes_alone_are_told_apart(store):
    plain = SghashVectorStore(store.collection, store.embeddings, search_options={})
    scored = plain.similarity_search_with_relevance_scores("text 3", k=5)
    values = [score for _, score in scored]
    assert values[0] == pytest.approx(1) and all(0 < value < 1 for value in values[1:])


def test_a_store_is_found_again(store, tmp_path):
    store.add_documents([Document(id="id-0", page_content="changed")])
    store.collection.close()
    with Collection.open(tmp_path / "store") as again:
        found = SghashVectorStore(again, store.embeddings).get_by_ids(["id-0", "none", "id-1"])
    assert [document.page_content for document in found] == ["changed", "text 1"]


@pytest.mark.parametrize(
    ("metadatas", "ids", "sentence"),
    [([{"x": {1}}], None, "JSON"), ([{}, {}], None, "2 metadatas"), (None, ["a", "b"], "2 ids")],
)
def test_a_store_that_was_refused_may_be_made_again(metadatas, ids, sentence, tmp_path):
    embedding = DeterministicFakeEmbedding(size=8)
    make = SghashVectorStore.from_texts
    with pytest.raises(InvalidInput, match=sentence):
        make(["a"], embedding, metadatas, ids=ids, path=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    made = make(["a"], embedding, [{"x": 1}], path=tmp_path / "new")
    assert made.similarity_search("a", k=1)[0].metadata == {"x": 1}
    made.collection.close()


def test_bad_input_changes_nothing(store):
    for call, sentence in (
        (lambda: store.add_texts(["a"], [{"x": {1}}]), "JSON"),
        (lambda: store.add_texts(["a"], [{}, {}]), "2 metadatas for 1 texts"),
        (lambda: store.add_texts(["a"], ids=["x", "y"]), "2 ids for 1 texts"),
        (lambda: SghashVectorStore.from_texts(["a"], store.embeddings), "its path"),
        (lambda: SghashVectorStore.from_texts([], store.embeddings, path="x"), "give a model"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            call()
    assert len(store.collection) == 60 and store.add_texts([]) == []
    assert store.add_texts(["a", "b"], ids=["same", "same"]) == ["same", "same"]
    assert store.get_by_ids(["same"])[0].page_content == "b"
    assert store.delete(["same", "none"]) and store.delete() and store.similarity_search("a") == []


class Sentences:
    """Embeds the sentences that come with the package by looking them up."""

    def __init__(self):
        data = load_dataset("sentences")
        pairs = ((data.base_texts, data.base), (data.query_texts, data.queries))
        self.known = {
            text: vector
            for texts, rows in pairs
            for text, vector in zip(texts, np.asarray(rows), strict=True)
        }

    def embed_documents(self, texts):
        return [self.known[text].tolist() for text in texts]

    def embed_query(self, text):
        return self.known[text].tolist()


def test_many_texts_are_planned(tmp_path):
    data, embedding = load_dataset("sentences"), Sentences()
    texts = [*data.base_texts, data.base_texts[7]]
    ids = [f"id-{number}" for number in range(len(data.base_texts))]
    store = SghashVectorStore.from_texts(texts, embedding, ids=[*ids, "id-0"], path=tmp_path / "n")
    collection = store.collection
    assert collection.plan is not None and len(collection) == len(data.base_texts)
    assert store.get_by_ids(["id-0"])[0].page_content == data.base_texts[7]
    assert collection.stats()["bytes_per_row"] < 0.3 * data.base.shape[1] * 4 + 200
    asked = data.query_texts[1]
    scored = store.similarity_search_with_relevance_scores(asked, k=3)
    products = np.asarray(data.base) @ np.asarray(data.queries)[1]
    truth = 0.5 + 0.5 * np.sort(products)[::-1][:3]
    assert [score for _, score in scored] == pytest.approx(truth, abs=0.02)
    store.add_texts([asked], ids=["new"])
    assert store.similarity_search(asked, k=1)[0].id == "new"
    collection.close()


@pytest.mark.parametrize("n", [PLANNED_FROM - 1, PLANNED_FROM])
def test_plans_begin_where_they_are_said_to(n, tmp_path):
    texts = load_dataset("sentences").base_texts[:n]
    store = SghashVectorStore.from_texts(list(texts), Sentences(), path=tmp_path / "n")
    assert (store.collection.plan is not None) is (n == PLANNED_FROM)
    store.collection.close()
    given = SghashVectorStore.from_texts(
        list(texts), Sentences(), path=tmp_path / "given", keep_vectors="float16"
    )
    assert given.collection.plan is None
    given.collection.close()
