"""Every verb over HTTP gives what the collection itself gives, in every kind of body and answer."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from small_server import WIDTH, N, make_collection, make_rows, running

from sghash import Collection
from sghash.models import LSH
from sghash.serve.settings import Settings

JSON, NDJSON = "application/json", "application/x-ndjson"
NPY, ARROW = "application/x-npy", "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return make_collection(tmp_path_factory.mktemp("local") / "rows", keep_vectors="float32")


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def stream(columns):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def vectors_column(rows):
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rerank": "vectors"},
        {"rerank": "vectors", "shortlist": 7},
        {"target_recall": 0.9},
        {"where": "year < 20"},
        {"where": {"ids": [3, 5, "7"]}},
        {"k": N + 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [1, 5])
def test_search_is_that_of_the_collection(server, local, options, n):
    queries = make_rows(1, n)
    options = {"k": 4} | options
    found = server.ask("search", {"queries": queries.tolist()} | options).json
    where = options.get("where")
    plain = options | ({"where": [3, 5, 7]} if isinstance(where, dict) else {})
    expected = local.search(queries, **plain)
    assert found["ids"] == expected.ids.tolist()
    padded = expected.ids == -1
    distances = np.array([[np.nan if d is None else d for d in row] for row in found["distances"]])
    assert (np.isnan(distances) == padded).all()
    assert np.array_equal(distances[~padded], expected.distances[~padded].astype(float))
    assert found["dtype"] == str(expected.distances.dtype)


@pytest.mark.parametrize("pair", [(40, 7), ("all", 7)])
@pytest.mark.parametrize("n", [1, 5])
def test_a_shortlist_may_be_a_pair(start, tmp_path, pair, n):
    server, queries = start(decodes=True), make_rows(1, n)
    local = Collection.open(tmp_path / "rows")
    options = {"k": 4, "rerank": "vectors", "shortlist": pair}
    expected = local.search(queries, **options).ids.tolist()
    assert server.ask("search", {"queries": queries.tolist()} | options).json["ids"] == expected
    path = f"search?k=4&rerank=vectors&shortlist={pair[0]},{pair[1]}"
    assert server.ask(path, npy(queries), content_type=NPY).json["ids"] == expected
    for wrong in ([40, 7, 3], [40, "all"], ["some", 7], [40, 1.5], []):
        asked = {"queries": queries.tolist()} | options | {"shortlist": wrong}
        assert server.ask("search", asked).status == 422, wrong


def test_codes_ids_and_keys_are_queries_too(server, local):
    codes = local.model.encode(server.rows[:3])
    expected = local.search_codes(codes, 3, fingerprint=local.fingerprint).ids.tolist()
    texts = [code.tobytes().hex() for code in codes]
    assert server.ask("search", {"codes": texts, "k": 3}).json["ids"] == expected
    assert server.ask("search", {"codes": texts[:1], "k": 3}).json["ids"] == expected[:1]
    by_id = server.ask("search", {"ids": [0, 1, 2], "k": 3, "rerank": "vectors"}).json["ids"]
    assert by_id == local.search(server.rows[:3], 3, rerank="vectors").ids.tolist()
    wrong = server.ask("search", {"codes": texts, "fingerprint": "0" * 64})
    assert wrong.status == 422 and "encode with the collection's own model" in wrong.json["detail"]


def test_metadata_comes_with_neighbours_where_asked_for(server):
    found = server.ask("search", {"queries": server.rows[:2].tolist(), "k": 2, "metadata": True})
    years = found.json["metadata"]["year"]
    assert years == found.json["ids"] and found.json["metadata"]["name"][0][0] == "row 0"
    assert "metadata" not in server.ask("search", {"ids": [0]}).json


@pytest.mark.parametrize("kind", [JSON, NDJSON, NPY, ARROW])
@pytest.mark.parametrize("body", [JSON, "base64", NPY, ARROW])
def test_every_kind_of_body_gives_every_kind_of_answer(server, local, kind, body):
    queries, k = make_rows(2, 3), 4
    expected = local.search(queries, k)
    path, data = "search", npy(queries)
    if body == "base64":
        data = json.dumps({"queries": base64.b64encode(data).decode(), "k": k}).encode()
    elif body == JSON:
        data = json.dumps({"queries": queries.tolist(), "k": k}).encode()
    else:
        path = "search?k=4"
        data = data if body == NPY else stream({"queries": vectors_column(queries)})
    sent = JSON if body == "base64" else body
    reply = server.ask(path, data, content_type=sent, accept=f"text/html;q=0.9, {kind};q=0.8")
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    if kind == JSON:
        ids = reply.json["ids"]
    elif kind == NDJSON:
        ids = [json.loads(line)["ids"] for line in reply.data.splitlines()]
    elif kind == NPY:
        ids = reply.array["ids"].tolist()
        assert np.array_equal(reply.array["distances"], expected.distances)
    else:
        ids = pa.ipc.open_stream(reply.data).read_all()["ids"].to_pylist()
    assert ids == expected.ids.tolist()


def test_range_and_explain(server, local):
    queries = server.rows[:4]
    expected = local.range_search(queries, 3)
    found = server.ask("range", {"queries": queries.tolist(), "radius": 3}).json
    assert found["ids"] == expected.ids.tolist() and found["limits"] == expected.limits.tolist()
    assert found["distances"] == expected.distances.tolist()
    told = server.ask("explain", {"queries": queries[0].tolist(), "k": 2}).json
    assert told["neighbors"]["ids"] == local.search(queries[:1], 2).ids.tolist()
    assert told["visits"][0]["rows_scanned"] >= N and "codes scanned" in told["text"]
    near = server.ask("explain", {"queries": queries[0].tolist(), "radius": 0}).json
    assert 0 in near["neighbors"]["ids"]


def test_encode_and_decode(server, local):
    codes = local.model.encode(server.rows)
    found = server.ask("encode", {"vectors": server.rows.tolist()}).json
    assert found["codes"] == [code.tobytes().hex() for code in codes]
    assert found["fingerprint"] == local.fingerprint
    assert np.array_equal(server.ask("encode", npy(server.rows), content_type=NPY).json["codes"],
                          found["codes"])  # fmt: skip
    decoded = server.ask("decode", npy(codes), content_type=NPY, accept=NPY)
    assert decoded.status == 422 and "has no decoder" in decoded.json["detail"]


def test_what_is_stored_comes_back(server, local):
    expected = local.get([5, 2])
    found = server.ask("get", {"ids": [5, "2"]}).json
    assert found["ids"] == [5, 2] and found["metadata"] == expected.metadata
    assert np.array_equal(np.array(found["vectors"], np.float32), expected.vectors)
    few = server.ask("get", {"ids": [5], "include": ["metadata"]}).json
    assert "vectors" not in few and few["metadata"]["year"] == [5]
    table = pa.ipc.open_stream(server.ask("get", {"ids": [5, 2]}, accept=ARROW).data).read_all()
    assert table["year"].to_pylist() == [5, 2] and table["codes"].to_pylist()[0] == bytes(
        expected.codes[0]
    )


def test_rows_without_metadata_come_in_every_kind(tmp_path):
    rows = make_rows()
    with Collection.create(tmp_path / "bare", LSH(16, random_state=0).fit(rows)) as bare:
        bare.add(rows)
        with running({"bare": bare}, Settings()) as server:
            for verb, body in (
                ("get", {"ids": [1, 2]}),
                ("search", {"ids": [1], "metadata": True}),
            ):
                expected = server.ask(verb, body, name="bare").json
                lines = server.ask(verb, body, name="bare", accept=NDJSON).data.splitlines()
                assert [json.loads(line)["ids"] for line in lines] == expected["ids"]
                table = server.ask(verb, body, name="bare", accept=ARROW).data
                assert pa.ipc.open_stream(table).read_all()["ids"].to_pylist() == expected["ids"]


def test_writing_and_large_ids(server):
    large = [2**53, 2**53 + 1, 2**62]
    rows = make_rows(3, 3) + 20
    added = server.ask("add", {"vectors": rows.tolist(), "ids": [large[0], *map(str, large[1:])],
                               "metadata": {"year": [2**60, None, 3]}})  # fmt: skip
    assert added.json["ids"] == [large[0], str(large[1]), str(large[2])]
    assert added.json["n_rows"] == N + 3
    found = server.ask("search", {"queries": rows.tolist(), "k": 1, "rerank": "vectors"}).json
    assert [row[0] for row in found["ids"]] == added.json["ids"]
    assert server.ask("get", {"ids": large}).json["metadata"]["year"] == [str(2**60), None, 3]
    keys = ["a", "b"]
    table = {"vectors": vectors_column(rows[:2]), "keys": keys, "name": ["x", "y"]}
    upserted = server.ask("upsert", stream(table), content_type=ARROW)
    assert upserted.status == 200, upserted.data
    got = server.ask("get", {"keys": keys}).json
    assert got["keys"] == keys and got["metadata"]["name"] == ["x", "y"]
    assert server.ask("search", {"keys": ["a"], "k": 1}).json["keys"] is not None
    there = server.ask("contains", {"keys": ["a", "z"]}).json["contains"]
    assert there == [True, False]
    assert server.ask("delete", {"keys": keys}).json["deleted"] == 2
    assert server.ask("delete", {"ids": large}).json == {"deleted": 3, "n_rows": N}
    assert server.ask("delete", {"ids": [large[0]]}).status == 422


def test_ids_are_listed_in_pieces(server):
    path = "/collections/rows/ids"
    assert server.send("GET", path).json["ids"] == list(range(N))
    assert server.send("GET", f"{path}?after=9&limit=3", accept=NPY).array.tolist() == [10, 11, 12]
    assert server.send("GET", f"{path}?after=x").status == 422
    assert server.send("GET", f"{path}?limit=1&limit=2").status == 400


def test_a_width_that_stands_for_all_of_it(server):
    assert server.send("GET", "/collections/rows").json["width"] == WIDTH
    assert server.send("GET", "/collections").json == {"collections": {"rows": {"n_rows": N}}}
