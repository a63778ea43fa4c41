"""The explorer while rows come and go, with what is seldom there, and with too much of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sghash import Collection
from sghash.cli.verbs.explore import command
from sghash.models import ITQ
from sghash.serve.explorer import export
from sghash.serve.explorer.sample import Sample
from sghash.serve.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small_server import make_collection, make_rows, running


@pytest.fixture
def server(tmp_path):
    collection = make_collection(tmp_path / "rows", decodes=True, keep_vectors="float32")
    with running({"rows": collection}, Settings(writable=True)) as run:
        yield run


def ids_of(reply):
    assert reply.status == 200, reply.data
    return [row["id"] for row in reply.json["rows"]]


def test_rows_that_are_gone_are_not_found_and_hinder_nothing(server):
    find = "/explorer/rows/find?words=row+1"
    before = ids_of(server.send("GET", find))
    assert "1" in before
    server.ask("delete", {"ids": [1]})
    assert ids_of(server.send("GET", find)) == [id_ for id_ in before if id_ != "1"]
    assert ids_of(server.send("GET", "/explorer/rows/rows?ids=1,2,3")) == ["2", "3"]
    said = server.send("POST", "/explorer/rows/ask", {"id": "1"})
    assert said.status == 422 and "not in the collection" in said.json["detail"]


def test_what_was_typed_is_looked_for_as_a_key_and_as_an_id(server):
    large = 2**63 - 2
    added = server.ask("add", {"vectors": make_rows(6, 1).tolist(), "keys": ["33"]}).json["ids"]
    server.ask("add", {"vectors": make_rows(5, 1).tolist(), "ids": [str(large)]})
    find = "/explorer/rows/find?words="
    assert ids_of(server.send("GET", f"{find}{large}")) == [str(large)]
    assert ids_of(server.send("GET", f"{find}33"))[:2] == [str(added[0]), "33"]
    for words in (str(2**63 - 1), "9" * 19, "9" * 30, "²", "%00", ""):
        assert ids_of(server.send("GET", find + words.replace("²", "%C2%B2"))) == []


@pytest.mark.parametrize("role", ["text", "image", "label"])
def test_a_role_of_a_column_that_no_row_has_hinders_nothing(tmp_path, role):
    rows = make_rows()
    model = ITQ(6, random_state=0).fit(rows)
    with Collection.create(tmp_path / "rows", model) as collection:
        collection.describe(**{role: "nowhere"})
        collection.add(rows)
        with running({"rows": collection}, Settings()) as server:
            for what in ("about", "map", "bits", "find?words=3"):
                assert server.send("GET", f"/explorer/rows/{what}").status == 200, what
            assert server.send("POST", "/explorer/rows/ask", {"id": "3"}).status == 200
            assert server.send("GET", "/explorer/rows/image/3").status == 404


def test_a_table_of_a_part_says_so(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    make_collection(tmp_path / "rows").close()
    asked = [str(tmp_path / "rows"), "--atlas", str(tmp_path / "rows.parquet")]
    assert "all 60 rows" in CliRunner().invoke(command, asked).output
    monkeypatch.setitem(Sample.__init__.__kwdefaults__, "most", 5)
    assert "5 of 60 rows" in CliRunner().invoke(command, asked).output
    told = json.loads(CliRunner().invoke(command, [*asked, "--json"]).output)
    assert (told["atlas_rows"], told["rows"]) == (5, 60)


def test_pictures_in_columns_count_as_files_do(tmp_path, monkeypatch):
    rows, picture = make_rows(), "data:image/png;base64," + "A" * 1000
    (tmp_path / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)
    pictures = ["3.png", *[picture] * (len(rows) - 1)]
    with Collection.create(tmp_path / "rows", ITQ(6, random_state=0).fit(rows)) as collection:
        collection.add(rows, metadata={"file": pictures})
        monkeypatch.setattr(export, "_MOST_BYTES", 6 * len(picture))
        given = export.Given(collection, images=tmp_path, lengths=())
        export.write_export(tmp_path / "rows.html", {"rows": given})
    text = (tmp_path / "rows.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    shown = data["collections"]["rows"]["rows"]
    assert [row["id"] for row in shown if "image" in row] == ["0", "1", "2", "3", "4", "5"]
