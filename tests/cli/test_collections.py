"""create, add, search, delete and verify from a shell: the same as the class says in Python."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.cli.inputs import metric_of
from sghash.data.conversion import WRITERS

GOLDEN = Path(__file__).parents[1] / "golden"


def found_by(answers):
    return [[n["id"] for n in answer["neighbors"]] for answer in answers]


def test_create_fits_and_adds_in_one_go(run, folder, vectors):
    line = ("create", "new", "vectors.npy", "--model", "ITQ", "-o", "n_iterations=5", "--bits", 12)
    facts = run(*line, "--keep-vectors", "float16", "--json", cwd=folder).facts
    assert facts["rows"] == 60 and facts["model"] == "ITQ" and facts["n_bits"] == 12
    expected = sghash.ITQ(n_bits=12, n_iterations=5, random_state=0).fit(vectors)
    opened = sghash.Collection.open(folder / "new")
    assert opened.fingerprint == expected.fingerprint_ == facts["fingerprint"]
    records = opened.get(range(60))
    np.testing.assert_array_equal(records.codes, expected.encode(vectors))
    np.testing.assert_array_equal(records.vectors, vectors.astype(np.float16))


def test_create_from_a_fitted_model_with_or_without_vectors(run, folder, vectors):
    assert run("create", "a", "--fitted", "model", "--json", cwd=folder).facts["rows"] == 0
    facts = run("create", "b", "vectors.npy", "--fitted", "model", "--json", cwd=folder).facts
    assert facts["rows"] == 60
    line = ("create", "c", "vectors.npy", "--model", "LSH", "--empty", "--metric", "cosine")
    assert run(*line, "--json", cwd=folder).facts["rows"] == 0
    assert sghash.Collection.open(folder / "c").metric == "cosine"
    for name in "abc":
        assert run("verify", name, cwd=folder).returncode == 0


def test_rows_may_be_chosen_with_what_belongs_to_them(run, folder, vectors):
    run("create", "new", "--fitted", "model", cwd=folder)
    line = ("add", "new", "vectors.npy", "--ids", "ids.txt", "--metadata", "year.csv")
    facts = run(*line, "--start", 10, "--stop", 25, "--json", cwd=folder).facts
    assert facts == {"collection": "new", "added": 15, "rows": 15}
    opened = sghash.Collection.open(folder / "new")
    assert opened.ids.tolist() == list(range(110, 125))
    records = opened.get([110, 124])
    assert records.metadata["year"] == [10, 24]
    np.testing.assert_array_equal(
        records.codes, sghash.load_model(folder / "model").encode(vectors[[10, 24]])
    )


def test_add_again_is_refused_and_upsert_replaces(run, folder):
    run("create", "new", "vectors.npy", "--fitted", "model", "--ids", "ids.txt", cwd=folder)
    line = ("add", "new", "vectors.npy", "--ids", "ids.txt")
    again = run(*line, cwd=folder)
    assert again.returncode == 1 and "id 100 is in the collection already" in again.stderr
    assert run(*line, "--upsert", "--json", cwd=folder).facts["rows"] == 60
    said = run(*line, "--upsert", cwd=folder).stdout
    assert said == "60 vectors added or replaced, 60 rows: new\n"
    about = run("info", "new", cwd=folder).stdout
    assert re.search(r"^bytes_per_row +\d+\.\d$", about, flags=re.MULTILINE)


METADATA = {
    "all.csv": "name,year,score,draft,zip\na,2000,1.5,true,01234\n"
    '"b, c",2001,2,FALSE,99999\nd,,,,\n',
    "all.tsv": "name\tyear\tscore\tdraft\tzip\na\t2000\t1.5\ttrue\t01234\n"
    "b, c\t2001\t2\tFALSE\t99999\nd\t\t\t\t\n",
    "all.jsonl": '{"name": "a", "year": 2000, "score": 1.5, "draft": true, "zip": "01234"}\n'
    '{"name": "b, c", "year": 2001, "score": 2, "draft": false, "zip": "99999"}\n\n'
    '{"name": "d"}\n',
}


@pytest.mark.parametrize(
    ("file", "piped"),
    [*((file, False) for file in METADATA), ("all.csv", True), ("all.jsonl", True)],
)
def test_metadata_keeps_its_kinds(run, folder, file, piped):
    (folder / file).write_text(METADATA[file])
    run("create", "new", "--fitted", "model", cwd=folder)
    run("convert", "vectors.npy", "three.npy", "--stop", 3, cwd=folder)
    line = ("add", "new", "three.npy", "--metadata", "-" if piped else file, "--id-column", "name")
    out = run(*line, cwd=folder, stdin=METADATA[file].encode())
    assert out.returncode == 0, out.stderr
    opened = sghash.Collection.open(folder / "new")
    assert opened.stats()["columns"] == {
        "year": "int", "score": "float", "draft": "bool", "zip": "text"
    }  # fmt: skip
    records = opened.get(["b, c", "d", "a"])
    assert records.metadata == {
        "year": [2001, None, 2000], "score": [2.0, None, 1.5],
        "draft": [False, None, True], "zip": ["99999", None, "01234"],
    }  # fmt: skip


def test_a_second_file_follows_the_kinds_of_the_first(run, folder):
    run("convert", "vectors.npy", "two.npy", "--stop", 2, cwd=folder)
    (folder / "1.csv").write_text("zip,score\n01234,1.5\n23456,2\n")
    (folder / "2.csv").write_text("zip,score\n12345,1\n23456,2\n")
    (folder / "3.csv").write_text("zip,score\n12345,x\n23456,2\n")
    run("create", "new", "two.npy", "--fitted", "model", "--metadata", "1.csv", cwd=folder)
    out = run("add", "new", "two.npy", "--metadata", "2.csv", cwd=folder)
    assert out.returncode == 0, out.stderr
    assert sghash.Collection.open(folder / "new").get([2]).metadata == {
        "zip": ["12345"], "score": [1.0]
    }  # fmt: skip
    out = run("add", "new", "two.npy", "--metadata", "3.csv", cwd=folder)
    assert out.returncode == 1 and "holds float values, and these are text" in out.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.csv", "", "a name for each column"),
        ("m.csv", "a,a\n1,2\n", "each once"),
        ("m.csv", "a,b\n1\n", "line 2: 1 values for 2 columns"),
        ("m.csv", "a\n" + "1\n" * 59, "59 values for 60 vectors"),
        ("m.csv", "no name\n" + "1\n" * 60, "named like a variable"),
        ("m.csv", '"a\n' + "1\n" * 60, "unexpected end"),
        ("m.csv", b"\xff\xfe\n", "UTF-8"),
        ("m.jsonl", "{\n", "line 1: not JSON"),
        ("m.jsonl", "[1]\n", "expected an object"),
        ("m.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("m.jsonl", '{"a": {"b": 1}}\n', "plain, finite value"),
        ("m.jsonl", '{"a": [[1]]}\n', "plain, finite value"),
        ("m.jsonl", '{"a": NaN}\n', "line 1: not JSON"),
        ("m.jsonl", '{"a": 1e999}\n', "plain, finite value"),
        ("m.jsonl", '{"a": 1}\n' * 30 + '{"a": "x"}\n' * 30, "one kind per column"),
        ("m.jsonl", f'{{"a": {10**30}}}\n' * 60, "beyond int64"),
        ("m.txt", "a\n", "use .csv, .tsv, .jsonl or .parquet"),
    ],
)
def test_bad_metadata_is_refused_and_nothing_is_added(run, folder, name, text, said):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    out = run("add", "kept", "vectors.npy", "--metadata", name, cwd=folder)
    assert out.returncode == 1 and said in out.stderr, out.stderr
    assert len(sghash.Collection.open(folder / "kept")) == 50


def test_keys_from_lines_numbers_and_arrays(run, folder, vectors):
    keys = [f"k{row}" for row in range(60)]
    (folder / "keys.txt").write_text("\n".join(keys) + "\n")
    np.save(folder / "ids.npy", np.arange(60) * 7)
    run("create", "a", "vectors.npy", "--fitted", "model", "--ids", "keys.txt", cwd=folder)
    assert sghash.Collection.open(folder / "a").get(["k59"]).keys == ["k59"]
    run("create", "b", "vectors.npy", "--fitted", "model", "--ids", "ids.npy", cwd=folder)
    assert sghash.Collection.open(folder / "b").ids.tolist() == list(range(0, 420, 7))
    line = ("create", "c", "vectors.npy", "--fitted", "model", "--ids", "ids.txt", "--as-keys")
    run(*line, cwd=folder)
    assert "100" in sghash.Collection.open(folder / "c")
    out = run("search", "c", "vectors.npy", "--stop", 1, "--k", 1, cwd=folder)
    assert out.stdout.split("\n")[0].split() == ["query", "rank", "id", "key", "distance"]
    assert out.stdout.split("\n")[1].split() == ["0", "1", "0", "100", "0"]


@pytest.mark.parametrize("rerank", ["none", "decoder", "vectors"])
def test_search_is_the_search_of_the_class(run, folder, vectors, rerank):
    line = ("search", "kept", "vectors.npy", "--k", 4, "--rerank", rerank, "--json")
    answers = run(*line, cwd=folder).facts
    distances, ids = sghash.Collection.open(folder / "kept").search(vectors, 4, rerank=rerank)
    assert found_by(answers) == ids.tolist()
    assert [[n["distance"] for n in a["neighbors"]] for a in answers] == distances.tolist()
    assert answers[7]["query"] == 7
    first = answers[7]["neighbors"][0]
    assert first["metadata"] == {"year": 2000 + first["id"]} and first["key"] is None


@pytest.mark.parametrize("ending", sorted(WRITERS))
def test_every_format_can_be_added_and_searched(run, folder, vectors, ending):
    whole = np.round(vectors * 20).astype(np.float32)
    np.save(folder / "whole.npy", whole)
    fixed = WRITERS[ending][1]
    if fixed is not None and np.dtype(fixed).kind == "u":
        whole = np.abs(whole)
        np.save(folder / "whole.npy", whole)
    dtype = () if fixed is None else ("--dtype", np.dtype(fixed).name)
    out = run("convert", "whole.npy", f"new{ending}", *dtype, cwd=folder)
    assert out.returncode == 0, out.stderr
    for name, source in (("a", "whole.npy"), ("b", f"new{ending}")):
        out = run("create", name, source, "--fitted", "model", cwd=folder)
        assert out.returncode == 0, out.stderr
    line = ("search", "b", f"new{ending}", "--k", 3, "--json")
    answers = run(*line, cwd=folder).facts
    expected = sghash.Collection.open(folder / "a").search(whole, 3)
    assert found_by(answers) == expected.ids.tolist()


def test_search_with_a_condition_with_ids_and_with_shortlists(run, folder, vectors):
    line = ("search", "kept", "vectors.npy", "--json", "--k", 3)
    opened = sghash.Collection.open(folder / "kept")
    where = "year >= 2010 and not year == 2012"
    answers = run(*line, "--where", where, cwd=folder).facts
    assert found_by(answers) == opened.search(vectors, 3, where=where).ids.tolist()
    (folder / "some.txt").write_text("1\n5\n8\n9\n")
    answers = run(*line, "--among", "some.txt", cwd=folder).facts
    assert found_by(answers) == opened.search(vectors, 3, where=[1, 5, 8, 9]).ids.tolist()
    for text, shortlist in (("20", 20), ("all", "all"), ("all,12", ("all", 12))):
        answers = run(*line, "--rerank", "vectors", "--shortlist", text, cwd=folder).facts
        expected = opened.search(vectors, 3, rerank="vectors", shortlist=shortlist)
        assert found_by(answers) == expected.ids.tolist()


def test_fewer_rows_than_asked_for(run, folder):
    answers = run("search", "kept", "vectors.npy", "--k", 10**9, "--json", cwd=folder).facts
    assert all(len(answer["neighbors"]) == 50 for answer in answers)
    out = run("search", "kept", "vectors.npy", "--where", "year < 0", cwd=folder)
    assert out.returncode == 0 and out.stdout == "no rows\n"
    run("create", "new", "--fitted", "model", cwd=folder)
    assert found_by(run("search", "new", "vectors.npy", "--json", cwd=folder).facts) == [[]] * 60


def test_many_queries_are_printed_in_one_table(run, folder, vectors):
    np.save(folder / "many.npy", np.tile(vectors, (40, 1)))
    lines = run("search", "kept", "many.npy", "--k", 1, cwd=folder).stdout.splitlines()
    assert len(lines) == 2401 and [line.split()[0] for line in lines[1:]] == [
        str(row) for row in range(2400)
    ]
    assert len(run("search", "kept", "many.npy", "--k", 1, "--json", cwd=folder).facts) == 2400


def test_hostile_texts_stay_in_their_cells(run, folder):
    (folder / "m.jsonl").write_text(json.dumps({"t": "a\x1b[2J\nb" + "x" * 500}) + "\n")
    run("create", "new", "--fitted", "model", cwd=folder)
    run("convert", "vectors.npy", "one.npy", "--stop", 1, cwd=folder)
    run("add", "new", "one.npy", "--metadata", "m.jsonl", cwd=folder)
    out = run("search", "new", "one.npy", cwd=folder)
    assert len(out.stdout.splitlines()) == 2 and "\x1b" not in out.stdout
    assert max(map(len, out.stdout.splitlines())) < 100


@pytest.mark.parametrize(
    ("name", "begins"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")]
)
def test_tune_draws_what_it_measures(run, folder, name, begins):
    line = ("tune", "kept", "--queries", 5, "--k", 3, "--plot", name, "--json")
    facts = run(*line, cwd=folder).facts
    picture = (folder / name).read_bytes()
    assert picture.startswith(begins) and len(picture) > 1000
    ways = [way["search"] for way in facts["ways"]]
    assert "codes" in ways and "target_recall=0.9" in ways
    if name == "a.svg":
        text = picture.decode()
        for shown in ("Recall@3", "queries per second", "target_recall", "kept vectors"):
            assert shown in text


def test_delete_by_id_key_and_stdin(run, folder):
    facts = run("delete", "kept", "3", "4", "--json", cwd=folder).facts
    assert facts == {"collection": "kept", "deleted": 2, "rows": 48}
    assert run("delete", "kept", "5", "3", cwd=folder).returncode == 1
    assert len(sghash.Collection.open(folder / "kept")) == 48
    assert run("delete", "kept", "-", "--json", stdin=b"10\n11\n", cwd=folder).facts["rows"] == 46
    (folder / "keys.txt").write_text("".join(f"{row}\n" for row in range(60)))
    run("create", "new", "vectors.npy", "--fitted", "model", "--ids", "keys.txt", "--as-keys",
        cwd=folder)  # fmt: skip
    assert run("delete", "new", "59", "--as-keys", "--compact", cwd=folder).returncode == 0
    opened = sghash.Collection.open(folder / "new")
    assert "59" not in opened and len(opened) == 59 and opened.stats()["n_deleted"] == 0


def test_verify_tells_what_is_whole_and_names_what_is_not(run, folder):
    facts = run("verify", "kept", "--json", cwd=folder).facts
    assert facts["kind"] == "collection" and facts["rows"] == 50 and facts["bytes"] > 0
    assert run("verify", "model", "--json", cwd=folder).facts["files"] == 2
    assert run("verify", "index", "--json", cwd=folder).facts["rows"] == 60
    model = next((folder / "kept").glob("model-*")) / "model.safetensors"
    for path in (model, folder / "model" / "model.safetensors", folder / "index"):
        content = bytearray(path.read_bytes())
        content[-3] ^= 64
        path.write_bytes(content)
    for name in ("kept", "model", "index"):
        out = run("verify", name, cwd=folder)
        assert out.returncode == 1 and name in out.stderr, out.stderr


def test_an_old_collection_is_whole_and_says_how_to_bring_it_up_to_date(run, folder):
    shutil.copytree(GOLDEN / "collection-v1", folder / "old")
    out = run("verify", "old", cwd=folder)
    assert out.returncode == 0 and out.stdout.startswith("whole: collection of 6 rows")
    for verb in ("verify", "info"):
        assert "Collection.compact() brings them up to date" in run(verb, "old", cwd=folder).stdout
        assert "compact()" in run(verb, "old", "--json", cwd=folder).facts["advice"]
    with sghash.Collection.open(folder / "old", writable=True) as opened:
        opened.add(np.zeros((1, 6), np.float32))
    assert "advice" in run("info", "old", "--json", cwd=folder).facts
    with sghash.Collection.open(folder / "old", writable=True) as opened:
        opened.compact()
    for verb in ("verify", "info"):
        assert "advice" not in run(verb, "old", "--json", cwd=folder).facts


def test_info_and_verify_know_every_kind_of_index(run, folder):
    for name in ("index-v1.sgh", "index-v2.sgh", "index-v2-tables.sgh"):
        facts = run("info", str(GOLDEN / name), "--json", cwd=folder).facts
        kind = "tables" if "tables" in name else "hamming"
        assert facts == {"kind": "index", "index": kind, "n_bits": 21, "n_bytes": 3, "codes": 6,
                         "bytes": 6 * 3 + 6 * 8}  # fmt: skip
        assert run("verify", str(GOLDEN / name), "--json", cwd=folder).facts["rows"] == 6
    about = run("info", "kept", "--json", cwd=folder).facts
    assert about["kind"] == "collection" and about["index"] == "hamming"


def test_info_describes_collections_vectors_names_and_parts(run, folder):
    def facts(what):
        return run("info", what, "--json", cwd=folder).facts

    assert facts("kept")["n_rows"] == 50 and facts("kept")["columns"] == {"year": "int"}
    assert facts("vectors.npy") == {
        "kind": "vectors", "n": 60, "dimensions": 6, "dtype": "float32"
    }  # fmt: skip
    assert facts("model")["options"]["n_iterations"] == 3
    assert facts("ITQ")["options"]["n_iterations"] == 50
    assert "SGH.paper" in facts("SGH")["presets"]
    options = facts("SGH")["options"]
    assert options["recipe__init"] == "itq" and "recipe" not in options
    assert facts("digits")["digits.base"] == "1600 vectors of 64 numbers"
    assert facts("digits.queries")["n"] == 197
    assert facts("mnist")["here"] in (True, False)


def test_a_writer_elsewhere_is_one_sentence(run, folder):
    with sghash.Collection.open(folder / "kept", writable=True):
        out = run("add", "kept", "vectors.npy", cwd=folder)
    assert out.returncode == 1 and out.stderr.endswith(
        "sghash: kept is open for writing elsewhere: close that writer first\n"
    )


def test_a_data_set_brings_its_metric():
    assert metric_of("glove100.base") == "ip" and metric_of("digits.base") == "l2"
    assert metric_of("sentences.base") == metric_of("sentences.queries") == "cosine"
    assert metric_of("glove100") == metric_of("vectors.npy") == metric_of(None) == "l2"


def test_sentences_are_found_with_their_texts(run, tmp_path):
    options = ("--model", "ITQ", "--bits", 32, "--metadata", "sentences.base", "--stop", 300)
    made = run("create", "notes", "sentences.base", *options, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    (found,) = run("search", "notes", "sentences.queries", "--stop", 1, "--k", 2, "--json").facts
    texts = [neighbor["metadata"]["text"] for neighbor in found["neighbors"]]
    known = sghash.load_dataset("sentences").base_texts[:300]
    assert texts == [known[neighbor["id"]] for neighbor in found["neighbors"]]
    assert len(texts) == 2


def test_the_metric_reaches_the_model_and_the_collection(run, folder):
    options = ("--bits", 8, "-o", "n_steps=3")
    run("create", "a", "vectors.npy", *options, "--metric", "cosine", cwd=folder)
    opened = sghash.Collection.open(folder / "a")
    assert opened.metric == opened.model.metric == "cosine"
    out = run("fit", "vectors.npy", "m", "--model", "LSH", "--metric", "ip", cwd=folder)
    assert out.returncode == 1 and "takes no account of a metric" in out.stderr
    line = ("fit", "vectors.npy", "m", "--model", "SGH(metric='ip')", "--metric", "l2")
    assert "contradicts" in run(*line, cwd=folder).stderr


def test_data_sets_stand_for_vectors_and_metadata(run, folder):
    line = ("create", "shelf", "digits.base", "--model", "LSH", "--bits", 128)
    assert run(*line, "--metadata", "digits.base", cwd=folder).returncode == 0
    answers = run("search", "shelf", "digits.queries", "--k", 1, "--json", cwd=folder).facts
    data = sghash.load_dataset("digits")
    labels = [answer["neighbors"][0]["metadata"]["label"] for answer in answers]
    assert np.mean(labels == data.query_labels) > 0.9
    out = run("fit", "digits", "m", cwd=folder)
    assert out.returncode == 1 and "digits.base or digits.queries" in out.stderr
    (folder / "digits.base").write_text("a file of that name comes first")
    assert "known ending" in run("fit", "digits.base", "m", cwd=folder).stderr
