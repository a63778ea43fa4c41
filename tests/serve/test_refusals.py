"""What is wrong with a request is said in one sentence, with a status that is documented."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from small_server import WIDTH, make_rows

from sghash.serve.refusals import STATUSES

ROW = [0.0] * WIDTH
NPY, ARROW = "application/x-npy", "application/vnd.apache.arrow.stream"


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npy_of(shape):
    """A .npy without numbers, whatever its header says."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("verb", "body", "status", "said"),
    [
        ("search", b"{", 400, "not JSON"),
        ("search", b"\xff\xfe", 400, "not JSON"),
        ("search", b"[" * 100_000, 400, "not JSON"),
        ("search", b"[]", 422, ""),
        ("search", {}, 422, "give one of queries, codes, ids, keys"),
        ("search", {"queries": [ROW], "ids": [1]}, 422, "give one of"),
        ("search", {"queries": [ROW], "K": 3}, 422, "there is no field 'K'"),
        ("search", {"queries": [ROW], "k": "3"}, 422, "k: "),
        ("search", {"queries": [ROW], "k": 0}, 422, "k: "),
        ("search", {"queries": [ROW], "k": 10**7}, 413, "k may be at most 10000"),
        ("search", {"queries": [ROW], "k": 10**30}, 422, "k: "),
        ("search", {"queries": [[1.0]]}, 422, "queries have 1 columns, expected 6"),
        ("search", {"queries": [ROW, [1.0]]}, 422, "rows of one length"),
        ("search", {"queries": [["1"] * WIDTH]}, 422, "rows of numbers"),
        ("search", {"queries": [[True] * WIDTH]}, 422, "rows of numbers"),
        ("search", {"queries": [[None] * WIDTH]}, 422, "rows of numbers"),
        ("search", {"queries": [[ROW]]}, 422, "rows of numbers"),
        ("search", {"queries": {"a": 1}}, 422, "rows of numbers"),
        ("search", {"queries": []}, 422, ""),
        ("search", {"queries": [[10**400, *ROW[1:]]]}, 422, ""),
        ("search", {"queries": [[1e39, *ROW[1:]]]}, 422, "NaN or infinite"),
        ("search", b'{"queries": [[NaN, 0, 0, 0, 0, 0]]}', 422, "NaN or infinite"),
        ("search", {"queries": "no base64!"}, 422, "no base64"),
        ("search", {"queries": "AAAA"}, 400, ".npy"),
        ("search", {"queries": [ROW], "rerank": "magic"}, 422, "rerank: "),
        ("search", {"queries": [ROW], "where": "year >"}, 422, "cannot read the condition"),
        ("search", {"queries": [ROW], "where": "a" * 99 + " == 1"}, 422, "no metadata column"),
        ("search", {"queries": [ROW], "where": "(" * 9999}, 422, ""),
        ("search", {"queries": [ROW], "where": {}}, 422, "either ids or keys"),
        ("search", {"queries": [ROW], "where": {"ids": [10**9]}}, 422, "is not in the collection"),
        ("search", {"queries": [ROW], "target_recall": 2}, 422, "target_recall: "),
        ("search", {"queries": [ROW], "target_recall": 0.9, "rerank": "decoder"}, 422, "chooses"),
        ("search", {"codes": ["zz" * 2]}, 422, "hexadecimal"),
        ("search", {"codes": ["0", "00"]}, 422, "of one length"),
        ("search", {"codes": ["000"]}, 422, ""),
        ("search", {"codes": ["00"]}, 422, "1 bytes wide"),
        ("search", {"codes": ["0000"], "rerank": "decoder"}, 422, "leave rerank"),
        ("search", {"codes": ["0000"], "rerank": "none", "shortlist": 9}, 422, "leave rerank"),
        ("search", {"codes": ["0000"], "rerank": "none", "target_recall": 0.9}, 422, "leave"),
        ("search", {"ids": [-1]}, 422, "ids"),
        ("search", {"ids": ["01"]}, 422, "ids"),
        ("search", {"ids": [1.5]}, 422, "ids"),
        ("get", {"ids": [10**9]}, 422, "id 1000000000 is not in the collection"),
        ("get", {"keys": ["nobody"]}, 422, "key 'nobody' is not in the collection"),
        ("get", {"ids": [1], "include": ["all"]}, 422, "include"),
        ("get", {}, 422, "either ids or keys"),
        ("range", {"queries": [ROW]}, 422, "'radius' is missing"),
        ("range", {"queries": [ROW], "radius": -1}, 422, "radius: "),
        ("explain", {"queries": [ROW, ROW]}, 422, "explain takes one query"),
        ("add", {"vectors": [ROW], "ids": [1]}, 422, "id 1 is in the collection already"),
        ("add", {"vectors": [ROW], "ids": [1, 2]}, 422, "got 2 ids for 1 rows"),
        ("add", {"vectors": [ROW], "keys": [""]}, 422, "empty string"),
        ("add", {"vectors": [ROW], "keys": ["\ud800"]}, 400, ""),
        ("add", {"vectors": [ROW], "codes": ["0000"]}, 422, "either vectors or codes"),
        ("add", {"vectors": [ROW], "metadata": {"year": ["x"]}}, 422, "keep one kind per column"),
        ("add", {"vectors": [ROW], "metadata": {"a b": [1]}}, 422, "named like a variable"),
        ("add", {"vectors": [ROW], "metadata": {"year": [{}]}}, 422, "metadata.year"),
        ("add", {"vectors": [ROW], "metadata": {"year": [10**30]}}, 422, "int64"),
        ("add", {"codes": ["0000"]}, 422, "keeps vectors"),
        ("upsert", {"vectors": None, "ids": [1]}, 422, "'vectors' is missing"),
        ("upsert", {"vectors": [ROW]}, 422, "give ids or keys"),
        ("delete", {"ids": [10**9]}, 422, "is not in the collection"),
        ("decode", {"codes": []}, 422, ""),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_wrong_request_is_refused_in_a_sentence(server, verb, body, status, said):
    before = server.send("GET", "/collections/rows").json["n_rows"]
    reply = server.ask(verb, body)
    assert reply.status == status and status in STATUSES, reply.data
    detail = reply.json["detail"]
    assert said in detail and "Traceback" not in detail and len(detail) < 800
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    assert server.send("GET", "/collections/rows").json["n_rows"] == before


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (b"", ".npy"),
        (npy(make_rows())[:-1], "cut short"),
        (npy(make_rows()) + b"x", "too long"),
        (npy(np.zeros((2, 2, 2))), "one or two dimensions"),
        (npy(np.zeros((2, WIDTH), complex)), "real numbers"),
        (npy(np.array([["a"]])), "real numbers"),
        (npy(make_rows()).replace(b"(60, 6)", b"(-6,-60)"), ""),
        (npy(make_rows()).replace(b"'<f4'", b"'|O' "), ""),
        (npy_of(f"({2**63}, 0)"), "no array can have"),
        (npy_of(f"(0, {2**70})"), "no array can have"),
    ],
)
def test_a_wrong_npy_is_refused(server, array, said):
    reply = server.ask("search", array, content_type=NPY)
    assert reply.status == 400 and said in reply.json["detail"]


def test_a_field_that_no_body_holds_is_missed(server):
    rows = npy(make_rows())
    assert "'radius' is missing" in server.ask("range", rows, content_type=NPY).json["detail"]
    empty = arrow({"ids": [1]})
    for verb, status in (("search", 200), ("encode", 422), ("upsert", 422), ("get", 200)):
        assert server.ask(verb, empty, content_type=ARROW).status == status, verb
    for verb, status in (("explain", 422), ("get", 422), ("delete", 422), ("contains", 422)):
        assert server.ask(verb, rows, content_type=NPY).status == status, verb
    assert server.ask("get", npy(np.array([3, 4])), content_type=NPY).json["ids"] == [3, 4]
    assert server.ask("explain", npy(make_rows()[:1]), content_type=NPY).status == 200


def arrow(columns, **options):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_arrow_that_would_unfold_is_refused(server):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(make_rows().reshape(-1)), WIDTH)
    packed = arrow({"queries": rows}, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert "compressed" in server.ask("search", packed, content_type=ARROW).json["detail"]
    names = pa.array(["x"] * len(rows)).dictionary_encode()
    folded = arrow({"vectors": rows, "name": names})
    assert "dictionaries" in server.ask("add", folded, content_type=ARROW).json["detail"]
    views = pa.array(["x" * 20] * len(rows), pa.string_view())
    viewed = server.ask("add", arrow({"vectors": rows, "name": views}), content_type=ARROW)
    assert viewed.status == 415 and "string_view" in viewed.json["detail"]
    for data in (b"", b"\xff" * 99, arrow({"queries": rows})[:-200], struct.pack("<iI", -1, 2**31)):
        assert server.ask("search", data, content_type=ARROW).status in (400, 422)
    unknown = server.ask("search", arrow({"queries": rows, "x": [1] * 60}), content_type=ARROW)
    assert "no column 'x'" in unknown.json["detail"]
    ragged = server.ask("search", arrow({"queries": [[1.0], [1.0, 2.0]]}), content_type=ARROW)
    assert "of one length" in ragged.json["detail"]


@pytest.mark.parametrize(
    ("columns", "status", "said"),
    [
        ({"ids": pa.nulls(2_000_000)}, 415, "null"),
        ({"vectors": pa.nulls(20), "x": pa.nulls(20)}, 415, "null"),
        ({"vectors": pa.array([[]] * 20, pa.list_(pa.float32(), 0))}, 415, "not taken"),
        ({"vectors": pa.array([[None]], pa.list_(pa.null()))}, 415, "not taken"),
        ({"codes": pa.array([b""] * 20, pa.binary(0))}, 415, "not taken"),
        ({"x": pa.array([[1]])}, 415, "list<"),
        ({"x": pa.array(np.zeros(2_000_000, bool))}, 413, "10000 rows"),
        ({f"x{i}": pa.array(np.zeros(9000, bool)) for i in range(500)}, 413, "4000000 values"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_arrow_of_next_to_nothing_does_not_become_many_rows(server, columns, status, said):
    body = arrow(columns)
    assert len(body) < 1_000_000
    for verb in ("add", "contains"):
        reply = server.ask(verb, body, content_type=ARROW)
        assert reply.status == status and said in reply.json["detail"], reply.data


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array([2**55]).view(pa.date64()),
        pa.array([2**60]).view(pa.timestamp("s")),
        pa.array([2**60]).view(pa.time64("ns")),
        pa.array([1]).view(pa.timestamp("us", tz="Not/AZone")),
    ],
    ids=lambda column: str(column.type),
)
def test_dates_that_python_does_not_have_are_refused(server, column):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(make_rows()[0]), WIDTH)
    for verb, columns in (("add", {"vectors": rows, "x": column}), ("contains", {"ids": column})):
        reply = server.ask(verb, arrow(columns), content_type=ARROW)
        assert reply.status in (400, 422), reply.data


def test_addresses_methods_and_kinds_that_are_not_there(server):
    assert server.ask("search", {"ids": [1]}, name="nobody").status == 404
    assert "there are rows" in server.ask("search", {"ids": [1]}, name="nobody").json["detail"]
    for path in ("/nothing", "/collections/rows/fly", "/collections/rows/", "/../etc/passwd",
                 "/collections/..%2f..%2fetc/search", "/docs/../etc/passwd", "/%00"):  # fmt: skip
        reply = server.send("GET", path)
        assert reply.status == 404 and set(reply.json) == {"detail", "error", "request_id"}
    wrong = server.send("GET", "/collections/rows/search")
    assert wrong.status == 405 and wrong.headers["allow"] == "POST"
    assert server.send("POST", "/collections", {}).status == 405
    assert server.ask("search", b"<a/>", content_type="text/xml").status == 415
    assert server.ask("search", {"ids": [1]}, accept="image/png").status == 406
    assert server.ask("get", {"ids": [1]}, accept=NPY).status == 406
    assert server.ask("search?k=1", {"ids": [1]}).status == 400
    assert server.ask("search?k=x", npy(make_rows()), content_type=NPY).status == 422
    assert server.ask("search?q=1", npy(make_rows()), content_type=NPY).status == 422


def test_an_error_of_ours_is_a_sentence_too(server, monkeypatch, caplog):
    from sghash.serve.api import verbs

    def fail(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(verbs, "single_query", fail)
    reply = server.ask("search", {"ids": [1]})
    assert reply.status == 500 and "please report it" in reply.json["detail"]
    assert "secret" not in reply.data.decode() and "ZeroDivisionError" in caplog.text
    assert json.loads(server.log.getvalue().splitlines()[-1])["status"] == 500
