"""No code from a file, a name or a host reaches the terminal; all of it stays readable."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sghash.cli
from sghash.cli.argument_types import RowsName
from sghash.cli.printing import PrintableFormatter, json_text, printable, say, show

# Clear the screen, rename the window, colour, bell, other alphabets' controls, fake lines.
EVIL = "a\x1b[2J\x1b]0;owned\x07\x9b31m\x7f\u202eb\nsghash: all is well\r"


def test_control_characters_are_written_out():
    assert printable("a\x1b[2J\x9b\x7f\n\u202e") == "a\\x1b[2J\\x9b\\x7f\\n\\u202e"
    assert printable("Ünïcödé 中文 😀, \\n") == "Ünïcödé 中文 😀, \\n"
    assert printable("\udcff") == "\\udcff"


def is_clean(text, *, bars=False):
    """Whether no code is in it, and no line begins with words of a name; bars go back by \\r."""
    lines = re.split(r"[\r\n]" if bars else r"\n", text)
    return all(line.isprintable() and not line.startswith("sghash: all is") for line in lines)


def is_shown(text):
    return "x1b[2J" in text or "u001b[2J" in text


def test_everything_that_is_said_is_clean(capsys):
    say(EVIL, "second")
    say(EVIL, err=True)
    show({"a": EVIL}, EVIL, as_json=False)
    show({"a": EVIL}, [EVIL, "more"], as_json=False)
    show({EVIL: EVIL}, "", as_json=True)
    out, err = capsys.readouterr()
    assert is_clean(out) and is_clean(err)
    assert out.count("\n") == 2 + 1 + 2 + 3 and err.count("\n") == 1
    assert json.loads(json_text([EVIL])) == [EVIL] and is_clean(json_text([EVIL]))


def test_log_lines_are_clean():
    formatter = PrintableFormatter("%(name)s: %(message)s")
    try:
        raise ValueError(EVIL)
    except ValueError:
        record = logging.LogRecord("x", 20, "f", 1, "%s", (EVIL,), sys.exc_info())
    text = formatter.format(record)
    assert is_clean(text) and "Traceback" in text and "\\x1b[2J" in text


def test_verbs_print_by_one_helper_only():
    """Else a new verb could forget about it."""
    allowed = {
        "printing.py": 3,  # the helper itself
        "demo.py": 2,  # a line of its own words that changes
        "completion.py": 1,  # a script of click's
    }
    for path in sorted(Path(sghash.cli.__file__).parent.rglob("*.py")):
        found = re.findall(r"click\.s?echo\(|\bprint\(", path.read_text())
        assert len(found) == allowed.get(path.name, 0), path.name


@pytest.fixture
def evil_folder(folder):
    """The usual files, with names that hold codes."""
    place = folder / "x\x1b[2J\x07"
    place.mkdir()
    for name in ("vectors.npy", "model", "kept", "index"):
        source = folder / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, place / f"{EVIL}{name}")
    return place


@pytest.mark.parametrize(
    "line",
    [
        "info {vectors.npy}",
        "info {model}",
        "info {kept}",
        "info {index}",
        "verify {kept}",
        "verify {index}",
        "verify {vectors.npy}",
        "convert {vectors.npy} new{vectors.npy}",
        "encode {model} {vectors.npy} new{vectors.npy}",
        "fit {vectors.npy} new{model} --model LSH",
        "create new{kept} {vectors.npy} --model LSH",
        "add {kept} {vectors.npy} -o 3",
        "add {kept} {vectors.npy}",
        "search {kept} {vectors.npy} --k 2 --stop 3",
        "search {kept} {vectors.npy} --where {model}",
        "search {kept} {vectors.npy} --among {kept}.txt",
        "delete {kept} {model}",
        "evaluate {vectors.npy} --models {model}",
        "-v info {kept}.no",
        "{model}",
    ],
)
def test_names_with_codes(run, evil_folder, line):
    words = line.split(" ")
    for ending in ("vectors.npy", "model", "kept", "index"):
        words = [word.replace("{" + ending + "}", f"{EVIL}{ending}") for word in words]
    for more in ([], ["--json"]):
        out = run(*words, *more, cwd=evil_folder)
        assert is_clean(out.stdout) and is_clean(out.stderr, bars=True), (out.stdout, out.stderr)


def test_metadata_and_keys_with_codes(run, folder):
    (folder / "m.jsonl").write_text(
        "".join(json.dumps({"t": f"{row}{EVIL}", "k": f"{row}{EVIL}"}) + "\n" for row in range(60))
    )
    line = ("add", "kept", "vectors.npy", "--metadata", "m.jsonl", "--id-column", "k")
    assert run(*line, cwd=folder).returncode == 0
    for more in ([], ["--json"]):
        line = ("search", "kept", "vectors.npy", "--k", 80, "--stop", 1)
        out = run(*line, *more, cwd=folder)
        assert out.returncode == 0 and is_shown(out.stdout) and is_clean(out.stdout)
    # A name of a column, and a key that is not there.
    (folder / "n.jsonl").write_text(json.dumps({EVIL: 1}) + "\n")
    for line in (
        ("add", "kept", "vectors.npy", "--stop", 1, "--metadata", "n.jsonl"),
        ("add", "kept", "vectors.npy", "--metadata", "m.jsonl", "--id-column", EVIL),
        ("delete", "kept", EVIL),
    ):
        out = run(*line, cwd=folder)
        assert out.returncode == 1 and is_clean(out.stderr, bars=True), out.stderr


def test_columns_of_files_with_codes(run, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.hdf5", "w") as file:
        file[EVIL], file["b"] = np.zeros((3, 3)), np.zeros((3, 3))
    np.savez(folder / "x.npz", **{EVIL: np.zeros((3, 3)), "b": np.zeros((3, 3))})
    for name in ("x.hdf5", "x.npz"):
        out = run("info", name, cwd=folder)
        assert out.returncode == 1 and is_shown(out.stderr) and is_clean(out.stderr)


def test_what_a_model_says_of_itself(run, folder):
    path = folder / "model" / "config.json"
    config = json.loads(path.read_text())
    config["options"]["random_state"] = EVIL
    path.write_text(json.dumps(config))
    for more in ([], ["--json"]):
        out = run("info", "model", *more, cwd=folder)
        assert out.returncode == 0 and is_clean(out.stdout) and is_shown(out.stdout)
    path.write_text(json.dumps({**config, "model": EVIL}))
    assert is_clean(run("info", "model", cwd=folder).stderr)


def test_completion_offers_no_codes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits\x1b[2J.npy", "digits.npy"):
        (tmp_path / name).touch()
    offered = [item.value for item in RowsName().shell_complete(None, None, "digi")]
    assert "digits.npy" in offered and all(value.isprintable() for value in offered)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal")
def test_on_a_real_terminal(folder):
    """Off a terminal, click itself removes some codes; here nothing does."""
    import pty

    name = "x\x1b[2J\x1b]0;owned\x07.npy"
    shutil.copy(folder / "vectors.npy", folder / name)
    seen = bytearray()
    for line in (["info", name], ["info", f"no{name}"], ["convert", name, f"new{name}"]):
        leader, follower = pty.openpty()
        done = subprocess.Popen(
            [sys.executable, "-m", "sghash", *line], cwd=folder, stdout=follower, stderr=follower
        )
        os.close(follower)
        try:
            while part := os.read(leader, 4096):
                seen += part
        except OSError:
            pass  # the other end is closed
        done.wait(60)
        os.close(leader)
    assert b"vectors of 6 numbers" in seen and b"\\x1b" in seen
    assert b"\x1b[2J" not in seen and b"\x1b]0;" not in seen and b"\x07" not in seen
