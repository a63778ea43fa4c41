"""The same files, named on the command line."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import sghash

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def place(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    records = [
        {"id": f"key{i}", "embedding": row, "tags": ["a", "b"], "year": 2000 + i}
        for i, row in enumerate(vectors.tolist())
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, records)))
    lines = [",".join(map(str, row)) for row in vectors.tolist()]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,d,e,f", *lines]))
    days = np.arange("2024-01-01", "2024-02-20", dtype="datetime64[D]")
    table = {"key": [f"k{i}" for i in range(50)], "vector": list(vectors), "day": days,
             "tags": [["x"]] * 50}  # fmt: skip
    parquet.write_table(arrow.table(table), tmp_path / "rows.parquet", row_group_size=7)
    np.save(tmp_path / "rows.npy", vectors)
    np.save(tmp_path / "one.npy", vectors[3])
    return tmp_path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_two_commands_from_any_file_to_answers(run, place, name):
    made = run("create", "c", name, "--model", "ITQ", "--bits", 16, cwd=place)
    assert made.returncode == 0, made.stderr
    assert "learned from 50 vectors" in made.stdout
    found = run("search", "c", name, "--k", 1, "--json", cwd=place).facts
    assert [answer["neighbors"][0]["distance"] for answer in found] == [0] * 50
    one = run("search", "c", "one.npy", "--k", 1, "--json", cwd=place).facts
    assert [n["id"] for answer in one for n in answer["neighbors"]] == [3]
    as_stdin = run("search", "c", "-", "--k", 1, "--json",
                   stdin=(place / "rows.jsonl").read_bytes(), cwd=place)  # fmt: skip
    assert as_stdin.facts == found


def test_keys_and_metadata_of_the_same_file(run, place):
    for name, column in [("rows.parquet", "key"), ("rows.jsonl", "id")]:
        folder = name.partition(".")[2]
        line = ("create", folder, name, "--metadata", name, "--id-column", column)
        made = run(*line, "--model", "ITQ", "--bits", 16, cwd=place)
        assert made.returncode == 0, made.stderr
        opened = sghash.Collection.open(place / folder)
        found = opened.search(np.load(place / "one.npy"), 1)
        assert found.keys.tolist() == [["k3" if column == "key" else "key3"]]
        kept = opened.get([3]).metadata
        if column == "key":
            assert kept == {"day": ["2024-01-04"], "tags": ['["x"]']}
        else:
            assert kept == {"tags": ['["a", "b"]'], "year": [2003]}
    out = run("search", "parquet", "one.npy", "--where", "day <= '2024-01-02'", "--json", cwd=place)
    assert len(out.facts[0]["neighbors"]) == 2


def test_metadata_of_every_type_in_parquet(run, place):
    table = {
        "d": [None, *(float(i) for i in range(49))],
        "flag": [i % 2 == 0 for i in range(50)],
        "few": [[i, i + 1] for i in range(50)],
        "coarse": arrow.array(["x", None] * 25).dictionary_encode(),
        **{f"v{i}": np.zeros(50) for i in range(8)},
    }
    parquet.write_table(arrow.table(table), place / "all.parquet")
    line = ("create", "all", "rows.npy", "--model", "ITQ", "--bits", 8, "--metadata")
    assert run(*line, "all.parquet", cwd=place).returncode == 0
    kept = sghash.Collection.open(place / "all").get([0, 1]).metadata
    assert kept == {
        "d": [None, 0.0], "flag": [True, False], "few": ["[0, 1]", "[1, 2]"],
        "coarse": ["x", None],
    }  # fmt: skip
    parquet.write_table(arrow.table({"raw": [b"x"] * 50}), place / "raw.parquet")
    out = run(line[0], "raw", *line[2:], "raw.parquet", cwd=place)
    assert out.returncode == 1 and "column 'raw' holds bytes" in out.stderr
    (place / "not.parquet").write_bytes(b"PAR1 nothing PAR1")
    out = run(line[0], "not", *line[2:], "not.parquet", cwd=place)
    assert out.returncode == 1 and "not.parquet" in out.stderr and not (place / "not").exists()


def test_a_field_is_chosen_by_key(run, place):
    text = '{"a": [1, 2], "b": [3, 4]}\n{"a": [5, 6], "b": [7, 8]}\n'
    (place / "two.jsonl").write_text(text)
    out = run("convert", "two.jsonl", "two.npy", "--key", "b", cwd=place)
    assert out.returncode == 0 and np.load(place / "two.npy").tolist() == [[3, 4], [7, 8]]
    out = run("convert", "-", "again.npy", "--key", "a", stdin=text.encode(), cwd=place)
    assert out.returncode == 0 and np.load(place / "again.npy").tolist() == [[1, 2], [5, 6]]
    out = run("info", "two.jsonl", cwd=place)
    assert out.returncode == 1 and "it has a, b: give one as key" in out.stderr


@pytest.mark.parametrize("name", ["pipe", "pipe.npy", "pipe.jsonl", "pipe.parquet"])
def test_a_pipe_is_refused_at_once(run, place, name):
    os.mkfifo(place / name)
    for line in (
        ("info", name),
        ("fit", name, "m"),
        ("create", "c", "rows.npy", "--metadata", name),
        ("create", "c", "rows.npy", "--ids", name),
        ("verify", name),
    ):
        out = run(*line, cwd=place)
        assert out.returncode == 1 and "Traceback" not in out.stderr, (line, out.stderr)


def test_fit_says_how_many_vectors_were_read(run, place):
    out = run("fit", "rows.npy", "m", "--model", "ITQ", "--bits", 8, "--stop", 40, cwd=place)
    assert "learned from 40 vectors" in out.stdout
    many = np.random.default_rng(1).normal(size=(60_000, 3)).astype(np.float32)
    np.save(place / "many.npy", many)
    line = ("fit", "many.npy", "few", "--bits", 4, "-o", "n_steps=5", "-o", "max_rows=2000")
    facts = run(*line, "--json", cwd=place).facts
    assert (facts["vectors"], facts["vectors_read"]) == (60_000, 2000)
    said = run(*line, "--overwrite", cwd=place).stdout
    assert "learned from 2000 of 60000 vectors" in said


def test_every_model_knows_how_many_vectors_it_learns_from(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(90, 4)).astype(np.float32)
    known = {
        sghash.SGH(4, n_steps=2): 100_000,
        sghash.SGH(4, n_steps=2, max_rows=None): 10**9,
        sghash.SGH(4, n_steps=2, goal="reconstruction"): 10**9,
        sghash.ITQ(4): (1 << 30) // 16,
        sghash.ITQ(4, sample=70): 70,
        sghash.models.SphericalHashing(4): 10_000,
        sghash.GenerativeQuantizer(2): 65_536,
    }
    for model, most in known.items():
        model.fit(rows)
        assert model.rows_learned(90) == min(90, most)
        assert model.rows_learned(10**9) == most, model


def test_more_neighbours_than_rows_are_said(run, place):
    run("create", "c", "rows.npy", "--stop", 3, "--model", "ITQ", "--bits", 8, cwd=place)
    out = run("search", "c", "one.npy", "--k", 9, "--json", cwd=place)
    assert len(out.facts[0]["neighbors"]) == 3
    assert "holds 3 rows, fewer than --k 9" in out.stderr


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sentence.queries", "did you mean sentences.queries?"),
        ("dentist", "a text must first be embedded"),
        ("x" * 500, "there is no file"),
    ],
)
def test_a_file_that_is_not_there_is_told_what_was_meant(run, name, told):
    done = run("fit", name, "model")
    assert done.returncode and told in done.stderr and len(done.stderr) < 300


@pytest.mark.parametrize("verb", ["verify", "info"])
def test_any_other_file_is_not_called_damaged(run, verb):
    done = run(verb, __file__)
    assert done.returncode == 1 and "is no collection, model or index" in done.stderr
    assert "damaged" not in done.stderr
