"""The demonstration: true numbers, a folder that can be used, one page, and clear refusals."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.cli import main
from sghash.cli.verbs.demo import _steps, _write_explorer
from sghash.demo.flipping import flip_grid, flip_titles, flips
from sghash.demo.page import write_page
from sghash.demo.sets import DEMO_SETS, load_set
from sghash.demo.shelf import prepare
from sghash.demo.terminal import Terminal
from sghash.demo.text import story_text
from sghash.errors import MissingData, StorageError
from sghash.evaluation.metrics import recall
from sghash.kernels import exact_neighbors
from sghash.kernels.reference import hamming_neighbors as slow_neighbors


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return stop.value.code, *capsys.readouterr()

    return call


def test_the_table_holds_what_a_slow_search_finds(told):
    story = told.story
    material = story.material
    truth = exact_neighbors(material.base, material.queries, 10, metric="l2").ids
    for (name, n_bits), model in story.models.items():
        row = next(r for r in story.rows if (r.model, r.n_bits) == (name, n_bits))
        codes, query_codes = model.encode(material.base), model.encode(material.queries)
        found = slow_neighbors(codes, query_codes, 50, n_bits=n_bits)
        assert row.recall10_at_10 == pytest.approx(recall(truth, found.ids, k=10, n=10))
        assert row.recall10_at_50 == pytest.approx(recall(truth, found.ids, k=10, n=50))
        assert row.bytes == n_bits // 8
    by_name = {(row.model, row.n_bits): row.recall10_at_10 for row in story.rows}
    assert by_name["SGH, decoder", 64] > by_name["SGH", 64] > by_name["SGH", 16] > 0.2
    assert by_name["SGH", 64] > by_name["SignHashing", 64]


def test_the_collection_is_left_and_answers_the_same(told):
    story = told.story
    with Collection.open(told.folder / "collection") as collection:
        queries = np.load(told.folder / "queries.npy")
        found = collection.search(queries, k=5, rerank="decoder", shortlist="all")
        assert np.array_equal(found.ids, story.shelf.scored.ids[:, :5])
        labels = collection.get(found.ids[0]).metadata["label"]
    assert labels == story.shelf.names(story.material, 0)


def test_sentences_are_found_by_codes_beside_the_truth(told):
    sentences, data = told.story.sentences, sghash.load_dataset("sentences")
    truth = sghash.ground_truth(data.base, data.queries, 10, metric="cosine").ids
    with Collection.open(told.folder / "sentences") as collection:
        found = collection.search(np.asarray(data.queries), rerank="decoder", shortlist="all").ids
    assert (
        sentences.recall == pytest.approx(recall(truth, found, k=10, n=10))
        and sentences.recall > 0.7
    )
    assert (sentences.vector_bytes, sentences.code_bytes) == (1536, 32)
    assert len(sentences.shown) == 4
    for query, ours, true in sentences.shown:
        row = data.query_texts.index(query)
        assert ours == [data.base_texts[near] for near in found[row, :3]]
        assert true == [data.base_texts[near] for near in truth[row, :3]]
        assert set(ours) & set(true), query
    text = story_text(told.story, Terminal("utf-8"))
    assert all(query in text for query, _, _ in sentences.shown)
    assert told.story.facts()["sentences"]["shown"][0]["query"] == sentences.shown[0][0]


def test_the_text_shows_pictures_codes_and_neighbours(told):
    text = story_text(told.story, Terminal("utf-8"))
    assert all(len(line) <= 84 for line in text.splitlines())
    for part in ("recall10@10", "SGH, decoder", "SignHashing", "██", "SGH draws", "9 → "):
        assert part in text, part
    assert "\x1b" not in text
    assert story_text(told.story, Terminal("ascii")).isascii()


def test_a_code_on_screen_is_the_code(told):
    story = told.story
    row = story.material.shown[2]
    drawn = Terminal("utf-8").bits(story.bits([row])[0])
    bits = [cell == "██" for line in drawn for cell in re.findall("..", line)]
    expected = np.unpackbits(story.model().encode(story.material.queries[[row]]))
    assert np.array_equal(bits, expected[:64].astype(bool))


def test_the_report_has_every_part(told):
    document = (told.folder / "report.html").read_text(encoding="utf-8")
    assert told.hint == ""
    for part in ("How many true neighbours", "What 64 bits still know", "Templates",
                 "From one to another",
                 "How it learned", "What each bit is worth", "A collection in a folder",
                 "Real sentences", "truly nearest", "The bus thundered down the road.",
                 "sghash info"):  # fmt: skip
        assert part in document, part
    assert document.count("<svg") == 10
    # None is so wide that a phone would cut it.
    assert 'class="picture wide"' not in document
    assert len(document) < 1_000_000


def test_what_figures_show_is_said_in_their_numbers(told):
    document = (told.folder / "report.html").read_text(encoding="utf-8")
    alts = set(re.findall(r'role="img" aria-label="([^"]*)"', document))
    best = max((row for row in told.story.rows if row.n_bits == 64), key=lambda r: r.recall10_at_10)
    said = f"64 bits, Recall10@10, the best first: {best.model} {best.recall10_at_10:.2f}"
    assert any(said in alt for alt in alts)
    queries = told.story.material.queries
    model = told.story.model("ITQ")
    lost = ((queries - model.decode(model.encode(queries))) ** 2).sum() / (
        (queries - queries.mean(axis=0)) ** 2
    ).sum()
    assert any(f"ITQ loses {100 * lost:.0f} % of the variance" in alt for alt in alts)
    assert all(re.search(r"\d", alt) or "bits" in alt for alt in alts)


def test_a_row_becomes_another_bit_by_bit(told):
    story = told.story
    model, (one, other) = story.model(), story.material.queries[story.material.shown[:2]]
    codes = model.encode(np.stack([one, other]))
    n = int(np.unpackbits(codes[0] ^ codes[1]).sum())
    pictures = flips(model, one, other)
    assert len(pictures) == n + 1 > 8
    np.testing.assert_allclose(pictures[[0, -1]], model.decode(codes), rtol=1e-5, atol=1e-5)
    # One bit each time: every step is one bit's template, there or back, and no bit flips twice.
    left = ((pictures - pictures[-1]) ** 2).sum(axis=1)
    assert left[0] > left[n // 2] > left[-1]
    (line, same), counts = flip_grid(model, [(one, other), (one, one)], (2, 90))
    assert counts == [n, 0] and line[3] is None and np.array_equal(line[2], pictures[2])
    assert len(line) == len(same) == len(flip_titles((2, 90))) and same[2] is None


def test_without_the_extra_the_tables_still_come(told, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    hint = write_page(told.story, tmp_path / "report.html")
    document = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "[plots]" in hint and hint.count(".") <= 1
    assert "<table" in document and "[plots]" in document and "<svg" not in document


def test_the_command_prints_results_and_says_what_it_does(run, tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    drawn: list = []
    monkeypatch.setattr(
        "sghash.demo.story.tell", lambda *_, say, **__: say("fitting") or told.story
    )
    monkeypatch.setattr("sghash.demo.page.write_page", lambda *args, **_: drawn.append(args) or "")
    monkeypatch.setattr(
        "sghash.cli.verbs.demo._write_explorer", lambda _, folder: folder / "explorer.html"
    )
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    code, out, err = run("demo")
    assert code == 0 and "fitting ..." in err and "recall10@10" in out and "\x1b" not in out + err
    assert "report  sghash-demo" in out and "next    sghash search" in out
    assert f"look    {(tmp_path / 'sghash-demo' / 'explorer.html').as_uri()}" in out
    code, out, err = run("demo", "--json", "--output", "elsewhere")
    facts = json.loads(out)
    assert {row["model"] for row in facts["rows"]} == {"SGH", "SGH, decoder", "ITQ", "SignHashing"}
    reports = [str(path) for story, path in drawn if story is told.story]
    assert len(reports) == 2 and facts["report"] == reports[1] and "elsewhere" in reports[1]


@pytest.mark.slow
def test_the_explorer_holds_both_collections(told, tmp_path):
    document = _write_explorer(told.story, tmp_path).read_text(encoding="utf-8")
    held = json.loads(re.search(r'id="data">(.*?)</script>', document, re.S)[1])["collections"]
    assert {name: len(each["rows"]) for name, each in held.items()} == {
        "digits": len(told.story.material.base), "sentences": told.story.sentences.n
    }  # fmt: skip
    assert held["digits"]["about"]["measures"] == ["hamming", "decoder", "vectors"]
    assert held["digits"]["about"]["picture"] == [8, 8] and held["sentences"]["about"]["text"]
    recalls = [point["decoder"][0] for point in held["digits"]["tradeoff"]["points"]]
    assert recalls == sorted(recalls) and len(document) < 5_000_000


def test_the_next_steps_can_be_typed_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    monkeypatch.setenv("SGHASH_CACHE", str(tmp_path))
    scripts = tmp_path / "a venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "sghash").touch()
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.chdir(tmp_path)
    search, other, evaluate = _steps(Path("my demo"), "digits")
    assert other == f"{shlex.quote('a venv/bin/sghash')} demo --data sentences"
    program = shlex.quote("a venv/bin/sghash")
    assert search == f"{program} search 'my demo/collection' 'my demo/queries.npy' --k 5"
    assert evaluate.startswith(f"{program} evaluate")
    # Another set is named where its files are.
    assert "demo --data digits" in _steps(Path("words"), "glove")[1]
    (scripts / "sghash").unlink()
    assert _steps(Path("my demo"), "digits")[0].startswith(f"'{scripts}/python' -m sghash search")


def test_a_folder_of_somebody_else_is_left_alone(run, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    code, out, err = run("demo", "--output", tmp_path)
    assert code == 1 and out == "" and "choose another with --output" in err
    assert (tmp_path / "mine.txt").read_text() == "precious"
    with pytest.raises(StorageError):
        prepare(tmp_path / "mine.txt")


def test_the_second_time_replaces_the_first(tmp_path):
    folder = tmp_path / "deep" / "out"
    prepare(folder)
    (folder / "collection").mkdir()
    (folder / "collection" / "old").write_text("x")
    prepare(folder)
    assert not (folder / "collection").exists()


@pytest.mark.parametrize("name", sorted({*DEMO_SETS} - {"digits", "sentences"}))
def test_data_that_is_not_here_is_one_sentence(run, name, monkeypatch, tmp_path):
    monkeypatch.setenv("SGHASH_DATA", str(tmp_path))
    monkeypatch.setenv("SGHASH_CACHE", str(tmp_path))
    code, out, err = run("demo", "--data", name, "--output", tmp_path / "out")
    last = err.strip().splitlines()[-1]
    assert code == 1 and out == "" and "SGHASH_DATA" in last
    assert not (tmp_path / "out").exists()
    with pytest.raises(MissingData):
        load_set(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "part"),
    [("glove", "budapest → .*(prague|vienna|warsaw|bucharest)"), ("mnist", "8 → .*8.*8")],
)
def test_real_sets_show_their_neighbours(run, data_folder, tmp_path, name, part):
    code, out, _ = run("demo", "--data", name, "--output", tmp_path / "out")
    assert code == 0 and re.search(part, out)


@pytest.mark.parametrize(
    ("is_tty", "environment", "expected"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False),
     (True, {"NO_COLOR": ""}, True), (True, {"TERM": "dumb"}, False)],
)  # fmt: skip
def test_colours_are_for_terminals_that_want_them(monkeypatch, is_tty, environment, expected):
    from sghash.cli.verbs.demo import _terminal

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_tty, raising=False)
    assert _terminal().colour is expected
