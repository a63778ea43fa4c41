"""`sghash explore`: the server of `sghash serve`, with pictures from a folder."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sghash import Collection
from sghash.models import ITQ
from sghash.serve.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small_server import make_rows, running

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.fixture
def folder(tmp_path):
    rows = make_rows()
    names = [f"{n}.png" for n in range(len(rows))]
    with Collection.create(tmp_path / "my photos", ITQ(6, random_state=0).fit(rows)) as collection:
        collection.add(rows, metadata={"file": names})
    (tmp_path / "3.png").write_bytes(PNG)
    return tmp_path / "my photos"


def test_it_is_the_server_of_sghash_serve(folder):
    command = [sys.executable, "-m", "sghash", "explore", str(folder), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r"127.0.0.1:(\d+)/", process.stdout.readline())[1])

        def get(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", path)
            answer = connection.getresponse()
            found = answer.status, dict(answer.getheaders()), answer.read()
            connection.close()
            return found

        status, headers, page = get("/")
        assert status == 200 and b"sghash explorer" in page and "x-request-id" in headers
        assert get("/explorer/my%20photos/image/3")[0::2] == (200, PNG)
        status, _, said = get("/explorer/my%20photos/image/4")
        assert status == 404 and "'4.png' is not below the folder" in json.loads(said)["detail"]
        assert str(folder.parent) not in said.decode()
        rows = json.loads(get("/explorer/my%20photos/rows?ids=3")[2])["rows"]
        assert rows[0]["image"] == "file"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == ""


def test_without_a_folder_no_row_names_a_picture(folder):
    with running({"photos": Collection.open(folder)}, Settings()) as server:
        rows = server.send("GET", "/explorer/photos/rows?ids=3").json["rows"]
        assert "image" not in rows[0]
        asked = server.send("POST", "/explorer/photos/ask", {"id": "3"}).json["rows"]
        assert not [row for row in asked if "image" in row]
        said = server.send("GET", "/explorer/photos/image/3")
        assert said.status == 404 and "reads no files of pictures" in said.json["detail"]
        nobody = server.send("GET", "/explorer/nobody/about")
        assert nobody.status == 404 and "there are photos" in nobody.json["detail"]
