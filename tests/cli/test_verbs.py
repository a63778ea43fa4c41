"""The command line as a user meets it: exit codes, stdout, stderr, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import sghash
from sghash.cli import main
from sghash.cli.frame import VERBS
from sghash.cli.verbs import info
from sghash.kernels.ways import ways


def run_process(*arguments):
    """The command as the shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "sghash", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    """The command in this process: the same entry point, without the imports each time."""

    def call(*arguments, cwd=None):
        if cwd is not None:
            monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out = capsys.readouterr()
        return Outcome(stop.value.code, out.out, out.err)

    return call


def test_the_command_starts_from_a_shell():
    assert run_process("--version").stdout.strip().endswith(sghash.__version__)
    out = run_process("info", "no-such-thing")
    assert out.returncode == 1 and out.stderr.startswith("sghash: no-such-thing does not exist")


def test_version_and_help(run):
    assert run("--version").stdout.strip().endswith(sghash.__version__)
    out = run("--help")
    assert out.returncode == 0
    for verb in VERBS:
        assert verb in out.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(run, verb):
    out = run(verb, "--help")
    assert out.returncode == 0 and "Example" in out.stdout and f"sghash {verb}" in out.stdout


@pytest.mark.parametrize("verb", [*VERBS, "no-such-verb"])
def test_a_wrong_option_is_a_usage_error(run, verb):
    out = run(verb, "--no-such-option")
    assert out.returncode == 2 and "Traceback" not in out.stderr and out.stdout == ""


def test_info_about_the_installation(run):
    facts = json.loads(run("info", "--json").stdout)
    assert facts["sghash"] == sghash.__version__ and facts["packages"]["numpy"] == np.__version__
    assert facts["kernels"] == ways() and "bits" in facts["kernels"]["Hamming distances"]


def test_info_about_a_model_and_an_index(run, tmp_path, rng):
    model = sghash.models.LSH(n_bits=12, random_state=0).fit(rng.standard_normal((30, 4)))
    model.save(tmp_path / "model")
    facts = json.loads(run("info", tmp_path / "model", "--json").stdout)
    assert facts["class"] == "LSH" and facts["n_bits"] == 12 and facts["dimensions"] == 4
    index = sghash.HammingIndex(n_bits=12)
    index.add(model.encode(rng.standard_normal((30, 4))))
    index.save(tmp_path / "codes")
    assert "codes" in run("info", tmp_path / "codes").stdout


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"SGHINDEX\x01\0\0\0"])
def test_info_about_something_else_is_one_sentence(run, content, tmp_path):
    path = tmp_path / "thing"
    if content is not None:
        path.write_bytes(content)
    out = run("info", path)
    assert out.returncode == 1 and out.stdout == ""
    assert out.stderr.startswith("sghash: ") and len(out.stderr.strip().splitlines()) == 1


def test_a_reader_that_goes_away_is_no_traceback():
    process = subprocess.run(
        f"{sys.executable} -m sghash info | true", shell=True, capture_output=True, text=True
    )
    assert "Traceback" not in process.stderr


@pytest.fixture
def folder(tmp_path, rng):
    np.save(tmp_path / "vectors.npy", rng.standard_normal((400, 12)).astype(np.float32))
    return tmp_path


def test_fit_encode_decode(run, folder):
    fitted = run("fit", "vectors.npy", "model", "--bits", 20, "--model", "ITQ", cwd=folder)
    assert fitted.returncode == 0 and "ITQ with 20 bits" in fitted.stdout
    assert "fitting ITQ" in fitted.stderr
    encoded = run("encode", "model", "vectors.npy", "codes.npy", "--json", cwd=folder)
    facts = json.loads(encoded.stdout)
    assert facts["n"] == 400 and facts["bytes"] == 1200
    model = sghash.load_model(folder / "model")
    vectors, codes = np.load(folder / "vectors.npy"), np.load(folder / "codes.npy")
    np.testing.assert_array_equal(codes, model.encode(vectors))
    assert run("decode", "model", "codes.npy", "restored.fvecs", cwd=folder).returncode == 0
    restored = np.asarray(sghash.open_vectors(folder / "restored.fvecs"))
    np.testing.assert_array_equal(restored, model.decode(codes))


def test_options_of_a_recipe_are_given_by_name(run, folder):
    line = ("fit", "vectors.npy", "cosine", "--bits", 8, "-o", "n_steps=5")
    assert run(*line, "-o", "recipe__schedule=cosine", cwd=folder).returncode == 0
    assert sghash.load_model(folder / "cosine").recipe == sghash.Recipe(schedule="cosine")
    out = run(*line, "-o", "recipe__decay=0.5", "--overwrite", cwd=folder)
    assert out.returncode == 1 and "decay=0.5 would have no effect" in out.stderr


def test_sweeps_sharpen_the_codes_of_sgh(run, folder):
    run("fit", "vectors.npy", "model", "--bits", 16, "--model", "SGH(n_steps=50)", cwd=folder)
    run("encode", "model", "vectors.npy", "plain.npy", cwd=folder)
    run("encode", "model", "vectors.npy", "sharp.npy", "--sweeps", 2, cwd=folder)
    model, vectors = sghash.load_model(folder / "model"), np.load(folder / "vectors.npy")
    errors = [
        ((model.decode(np.load(folder / name)) - vectors) ** 2).sum()
        for name in ("plain.npy", "sharp.npy")
    ]
    assert errors[1] < errors[0]


def test_nothing_is_overwritten_unasked(run, folder):
    run("fit", "vectors.npy", "model", "--model", "LSH", cwd=folder)
    before = (folder / "model" / "config.json").read_bytes()
    again = run("fit", "vectors.npy", "model", "--model", "ITQ", cwd=folder)
    assert again.returncode == 1 and "exists already" in again.stderr
    assert (folder / "model" / "config.json").read_bytes() == before
    asked = run("fit", "vectors.npy", "model", "--model", "ITQ", "--overwrite", cwd=folder)
    assert asked.returncode == 0 and sghash.load_model(folder / "model").__class__ is sghash.ITQ


def test_convert(run, folder):
    out = run("convert", "vectors.npy", "part.fbin", "--start", 10, "--stop", 20, cwd=folder)
    assert out.returncode == 0 and out.stdout.startswith("10 vectors of 12 numbers")
    expected = np.load(folder / "vectors.npy")[10:20]
    np.testing.assert_array_equal(np.asarray(sghash.open_vectors(folder / "part.fbin")), expected)


def test_evaluate_resumes_from_its_rows(run, folder):
    models = "LSH,ITQ(n_iterations=3)"
    arguments = ("evaluate", "vectors.npy", "--models", models, "--bits", "16,64",
                 "--rows", "rows.jsonl", "--recall", "0.5")  # fmt: skip
    out = run(*arguments, cwd=folder)
    assert out.returncode == 0 and "recall10@100" in out.stdout and "[1/4]" in out.stderr
    again = run(*arguments, "--json", cwd=folder)
    facts = json.loads(again.stdout)
    assert {row["model"] for row in facts["rows"]} == {"LSH", "ITQ(n_iterations=3)"}
    assert "[1/4]" not in again.stderr


WRONG = {
    "fit": [("no.npy", "m"), ("vectors.npy", "m", "--model", "Nope"),
            ("vectors.npy", "m", "--bits", "0"), ("vectors.npy", "m", "--model", "ITQ(nope=1)"),
            ("vectors.npy", "m", "--start", "-1"), ("empty.npy", "m"), ("text.npy", "m")],
    "encode": [("no-model", "vectors.npy", "c.npy"), ("model", "no.npy", "c.npy"),
               ("model", "narrow.npy", "c.npy"), ("model", "vectors.npy", "c.unknown"),
               ("model", "vectors.npy", "c.npy", "--sweeps", "2"), ("model", "nan.npy", "c.npy")],
    "decode": [("model", "vectors.npy", "r.npy"), ("model", "codes.npy", "r.npy")],
    "convert": [("no.npy", "t.npy"), ("vectors.npy", "t.xyz"), ("vectors.npy", "vectors.npy"),
                ("vectors.npy", "t.npy", "--dtype", "nonsense"), ("text.npy", "t.npy")],
    "evaluate": [(), ("no.npy",), ("vectors.npy", "--bits", "x"), ("vectors.npy", "--models", "No"),
                 ("--dataset", "no-such-set"), ("--dataset", "digits", "--metric", "ip"),
                 ("vectors.npy", "--seeds", "0"), ("vectors.npy", "--stop", "1"),
                 ("vectors.npy", "--stop", "10")],
    "reproduce": [("no-such-claim",), ("recall_l2", "--seeds", "0"), ("all", "--seeds", "x"),
                  ("all", "--quick", "--out", "text.npy"), ("recall_l2", "all"),
                  ("all", "--quick", "--originals"), ("estimators", "--quick", "--threads", "0")],
    "create": [(), ("c",), ("c", "no.npy"), ("model", "vectors.npy"), ("c", "--fitted", "no"),
               ("c", "--fitted", "model", "--bits", "8"), ("c", "--fitted", "model", "--ids", "x"),
               ("c", "narrow.npy", "--fitted", "model"), ("c", "nan.npy", "--fitted", "model"),
               ("c", "vectors.npy", "--model", "LSH", "--metadata", "text.npy"),
               ("c", "vectors.npy", "--model", "LSH", "--metadata", "short.csv"),
               ("c", "vectors.npy", "--model", "LSH", "--ids", "text.txt"),
               ("c", "vectors.npy", "--model", "LSH", "-o", "nonsense"),
               ("c", "vectors.npy", "--model", "LSH", "-o", "nope=1")],
    "add": [(), ("c",), ("no", "vectors.npy"), ("model", "vectors.npy"), ("kept", "no.npy"),
            ("kept", "narrow.npy"), ("kept", "nan.npy"), ("kept", "empty.npy"),
            ("kept", "vectors.npy", "--ids", "no.txt"), ("kept", "vectors.npy", "--upsert"),
            ("kept", "vectors.npy", "--id-column", "x"), ("kept", "vectors.npy", "--as-keys"),
            ("kept", "vectors.npy", "--metadata", "short.csv"),
            ("kept", "vectors.npy", "--start", "900")],
    "search": [(), ("kept",), ("no", "vectors.npy"), ("model", "vectors.npy"),
               ("kept", "no.npy"), ("kept", "narrow.npy"), ("kept", "nan.npy"),
               ("kept", "vectors.npy", "--k", "0"), ("kept", "vectors.npy", "--rerank", "no"),
               ("kept", "vectors.npy", "--rerank", "vectors"),
               ("kept", "vectors.npy", "--shortlist", "5"),
               ("kept", "vectors.npy", "--rerank", "decoder", "--shortlist", "x"),
               ("kept", "vectors.npy", "--rerank", "decoder", "--shortlist", "2"),
               ("kept", "vectors.npy", "--where", "nope == 1"),
               ("kept", "vectors.npy", "--where", "__import__('os').abort()"),
               ("kept", "vectors.npy", "--where", "("), ("kept", "vectors.npy", "--where", ""),
               ("kept", "vectors.npy", "--target-recall", "2"),
               ("kept", "vectors.npy", "--target-recall", "x"),
               ("kept", "vectors.npy", "--target-recall", "0.9", "--rerank", "decoder"),
               ("kept", "vectors.npy", "--among", "no.txt"),
               ("kept", "vectors.npy", "--among", "text.txt")],
    "delete": [(), ("kept",), ("no", "1"), ("model", "1"), (".", "1"), ("kept", "999"),
               ("kept", "no-such-key"), ("kept", "1", "-"), ("kept", "1", "word"),
               ("kept", "1.5"), ("kept", "")],
    "plan": [(), ("--rows", "5"), ("--rows", "x", "--dims", "3"), ("--rows", "0", "--dims", "3"),
             ("--rows", "1.5", "--dims", "3"), ("--rows", "9", "--dims", "-1"),
             ("--rows", "9", "--dims", "3", "--target-recall", "2")],
    "tune": [(), ("no",), ("model",), ("kept", "--k", "0"), ("kept", "--queries", "0"),
             ("kept", "--k", "100000"), ("kept", "--plot", "a.txt"),
             ("kept", "--plot", "no-such-folder/a.svg")],
    "serve": [(), ("no",), ("model",), ("kept", "kept"), ("a b=kept",), ("kept", "--port", "x"),
              ("kept", "--port", "70000"), ("kept", "--host", "256.1.1.1"),
              ("kept", "--api-key-file", "no.txt"), ("kept", "--api-key-file", "empty-folder"),
              ("kept", "--api-key-file", "codes.npy"), ("kept", "--gather-ms", "-1"),
              ("kept", "--max-k", "0"), ("kept", "--timeout", "0")],
    "info": [("no-such-thing",), ("text.npy",), ("empty-folder",)],
    "verify": [(), ("no-such-thing",), ("text.npy",), ("empty-folder",), ("vectors.npy",)],
    "backup": [(), ("kept",), ("no", "copy"), ("model", "copy"), ("kept", "kept"),
               ("kept", "model"), ("kept", "text.txt")],
    "push": [(), ("kept",), ("kept", "mysql://x"), ("kept", "duckdb:"), ("no", "duckdb:new.db"),
             ("model", "duckdb:new.db"), ("kept", "duckdb:new.db", "--table", "a b")],
    "pull": [(), ("duckdb:no.db",), ("mysql://x", "c"), ("duckdb:no.db", "c"),
             ("duckdb:no.db", "c", "--model", "no"), ("duckdb:no.db", "kept")],
    "explore": [(), ("no-such-thing",), ("empty-folder", "--export", "x.html"),
                ("kept", "--rows", "5"), ("kept", "--export", "x.html", "--rows", "0"),
                ("kept", "--export", "no-such-folder/x.html"), ("kept", "--port", "x")],
    "completion": [(), ("nonsense",)],
    "demo": [("--seed", "x")],
}  # fmt: skip


def test_every_verb_is_tried_with_wrong_arguments():
    assert set(WRONG) == set(VERBS)


@pytest.mark.parametrize("verb", [verb for verb, cases in WRONG.items() if cases])
def test_wrong_arguments_are_one_sentence_and_leave_nothing(run, verb, folder):
    vectors = np.load(folder / "vectors.npy")
    sghash.models.LSH(n_bits=16, random_state=0).fit(vectors).save(folder / "model")
    np.save(folder / "narrow.npy", vectors[:, :5])
    np.save(folder / "empty.npy", vectors[:0])
    np.save(folder / "codes.npy", np.zeros((3, 2), np.uint8))
    bad = vectors.copy()
    bad[7, 3] = np.nan
    np.save(folder / "nan.npy", bad)
    (folder / "text.npy").write_text("not an array")
    (folder / "text.txt").write_text("one\n\ntwo\n")
    (folder / "short.csv").write_text("year\n2000\n2001\n")
    (folder / "empty-folder").mkdir()
    model = sghash.load_model(folder / "model")
    with sghash.Collection.create(folder / "kept", model) as kept:
        kept.add(vectors[:5])
    before = sorted(path.name for path in folder.iterdir())
    for arguments in WRONG[verb]:
        out = run(verb, *arguments, cwd=folder)
        assert out.returncode in (1, 2), (arguments, out.stdout, out.stderr)
        assert out.stdout == "" and "Traceback" not in out.stderr, (arguments, out.stderr)
        said = [x for x in out.stderr.split("\n") if "sghash: " in x or x.startswith("Error")]
        assert len(said) == 1, (arguments, out.stderr)
        assert sorted(path.name for path in folder.iterdir()) == before, arguments
        assert len(sghash.Collection.open(folder / "kept")) == 5, arguments


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (("encode", "no", "vectors.npy", "c.npy"), "there is no model folder no: check the path"),
        (("encode", "model", "vectors.npy", "no/c.npy"), "its folder is not there: make it first"),
        (("create", "c", "vectors.npy", "--fitted", "model", "--ids", "no.txt"),
         "there is no file no.txt: check the path"),
        (("create", "c", "nan.npy", "--model", "LSH"), "X contains NaN: remove or fill these"),
        (("search", "kept", "narrow.npy"), "expected 12: use vectors of the same kind"),
        (("search", "kept", "vectors.npy", "--where", ""), "is empty: write it as in"),
        (("evaluate", "vectors.npy", "--stop", "1"), "there is only 1: give more vectors"),
        (("evaluate", "vectors.npy", "--stop", "10"), "too few for 10 neighbours each: give more"),
        (("info", "empty-folder"), "neither a collection nor a model, and holds no vectors"),
    ],
)  # fmt: skip
def test_a_refusal_tells_what_to_do(run, folder, line, remedy):
    vectors = np.load(folder / "vectors.npy")
    model = sghash.models.LSH(n_bits=16, random_state=0).fit(vectors)
    model.save(folder / "model")
    sghash.Collection.create(folder / "kept", model).close()
    np.save(folder / "narrow.npy", vectors[:, :5])
    np.save(folder / "nan.npy", np.full((20, 12), np.nan, np.float32))
    (folder / "empty-folder").mkdir()
    out = run(*line, cwd=folder)
    assert out.returncode == 1 and remedy in out.stderr, out.stderr


@pytest.mark.parametrize("target", ["vectors.npy", "thesis"])
def test_what_is_no_model_is_not_replaced_and_nothing_is_trained(run, folder, target):
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.tex").write_text("precious")
    out = run("fit", "vectors.npy", target, "--overwrite", cwd=folder)
    assert out.returncode == 1 and "fitting" not in out.stderr
    assert "model" in out.stderr and "give another" in out.stderr
    assert (folder / "thesis" / "chapter.tex").read_text() == "precious"


def test_numbers_too_large_for_float32_bring_no_warning(run, folder):
    np.save(folder / "large.npy", np.array([[1e300, -1e300]] * 30))
    for model in ("SGH", "LSH"):
        out = run("fit", "large.npy", "m", "--model", model, cwd=folder)
        assert out.returncode == 1 and "Warning" not in out.stderr
    out = run("evaluate", "large.npy", "--queries", "large.npy", cwd=folder)
    assert out.returncode == 1 and "queries contain" in out.stderr


def test_a_full_reproduction_without_any_data_is_refused_at_once(run, monkeypatch, tmp_path):
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    code, out, error = run("reproduce", "--out", str(tmp_path / "out"))
    assert code == 1 and not out and "add --quick" in error
    assert not (tmp_path / "out").exists()


def test_info_takes_the_key_that_it_asks_for(run, tmp_path):
    path = tmp_path / "two.npz"
    np.savez(path, a=np.zeros((3, 4), "float32"), b=np.zeros((5, 6), "float32"))
    assert "key" in run("info", path).stderr
    assert json.loads(run("info", path, "--key", "b", "--json").stdout)["n"] == 5
    assert "name such a file" in run("info", "SGH", "--key", "b").stderr


def test_info_names_every_extra_that_users_have():
    whole = tomllib.loads(
        (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    )
    tooling = {"adapters", "bench", "dev", "docs", "release", "rivals"}
    assert set(info.EXTRAS) == set(whole["project"]["optional-dependencies"]) - tooling
