"""What the explorer computes, each against a plain way to find the same."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection.records import text_bytes
from sghash.errors import InvalidInput, MissingData, SghashError
from sghash.serve.explorer.asking import answer, ids_found, rows_of, shells
from sghash.serve.explorer.axes import principal_axes
from sghash.serve.explorer.drawing import drawn_bits, drawn_map
from sghash.serve.explorer.export import Given, static_data, write_export
from sghash.serve.explorer.looks import looks_of
from sghash.serve.explorer.packing import json_text, packed, plain, unpacked
from sghash.serve.explorer.page import document
from sghash.serve.explorer.pictures import embedded, read_picture
from sghash.serve.explorer.sample import Sample
from sghash.serve.explorer.tradeoff import tradeoff

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def asked(collection, question, k=5):
    sample = Sample(collection)
    return answer(collection.moment, question, k, sample.looks, sample.brightness)


def test_axes_are_those_of_a_decomposition():
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((400, 12)) * np.linspace(3, 0.2, 12)).astype(np.float32)
    places = principal_axes(rows).places(rows)
    centred = rows - rows.mean(axis=0)
    expected = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    np.testing.assert_allclose(np.abs(places), np.abs(expected), atol=0.02)


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1)])
def test_axes_of_few_rows_or_columns_are_finite(shape):
    axes = principal_axes(np.zeros(shape, np.float32))
    assert np.isfinite(axes.places(np.zeros(shape, np.float32))).all()
    assert axes.directions.shape == (2, shape[1])


def test_shells_count_every_living_row(collection):
    codes = collection.get(collection.ids).codes
    query = codes[3]
    expected = np.bincount(
        np.unpackbits(codes ^ query, axis=1).sum(axis=1), minlength=collection.n_bits + 1
    )
    assert np.array_equal(shells(collection.moment.state, query), expected)


def test_neighbours_are_those_of_a_search_without_the_row_itself(collection):
    said = asked(collection, {"id": "20"})
    record = collection.get([20])
    for name, options in {
        "decoder": {"rerank": "decoder", "shortlist": "all"},
        "vectors": {"rerank": "vectors", "shortlist": 298},
    }.items():
        found = collection.search(record.vectors, 6, **options).ids[0]
        assert said["columns"][name]["ids"] == [str(i) for i in found if i != 20][:5]
    near = collection.search_codes(record.codes, 6, fingerprint=collection.fingerprint).ids[0]
    assert said["columns"]["hamming"]["ids"] == [str(i) for i in near if i != 20][:5]
    assert {row["id"] for row in said["rows"]} >= {"20", *said["columns"]["hamming"]["ids"]}
    np.testing.assert_allclose(unpacked(said["decoded"]), record.reconstructions[0], atol=1e-6)
    assert unpacked(said["pictures"]).shape == (len(said["rows"]), 24)


def test_a_flipped_code_stands_for_what_it_decodes_to(collection):
    code = collection.get([20]).codes.copy()
    code[0, 1] ^= 16
    said = asked(collection, {"code": code[0].tobytes().hex()})
    decoded = collection.model.decode(code)
    found = collection.search(decoded, 5, rerank="decoder", shortlist="all").ids[0]
    assert said["columns"]["decoder"]["ids"] == list(map(str, found))
    assert said["id"] is None and said["vector"] is None
    bits = "".join(map(str, np.unpackbits(code[0])[:20]))
    assert asked(collection, {"code": bits})["code"] == said["code"]


def test_a_typed_vector_is_encoded(collection):
    vector = collection.get([5]).vectors[0]
    said = asked(collection, {"vector": vector.tolist()})
    assert said["columns"]["vectors"]["ids"][0] == "5"
    assert said["code"] == collection.model.encode(vector[None])[0].tobytes().hex()


@pytest.mark.parametrize(
    "question",
    [None, [], {}, {"id": "1", "code": "00"}, {"id": "x"}, {"id": True}, {"id": "7"}, {"id": "-1"},
     {"id": "9" * 30}, {"key": 5}, {"key": "none"}, {"code": "zz"}, {"code": "0000"},
     {"code": "ffffff"}, {"code": 5}, {"vector": [1, 2]}, {"vector": "x"}, {"vector": [[1.0] * 24]},
     {"vector": [1e300] * 24}, {"vector": [None] * 24}, {"vector": [10**400] * 24}],
)  # fmt: skip
def test_a_bad_question_is_one_sentence(collection, question):
    with pytest.raises(SghashError) as error:
        asked(collection, question)
    assert len(str(error.value)) > 10
    with pytest.raises(SghashError):
        asked(collection, {"id": "1"}, k=101)


def test_bits_say_what_a_slow_count_says(collection):
    sample = Sample(collection)
    drawn = drawn_bits(sample)
    bits = np.unpackbits(sample.codes, axis=1)[:, :20].astype(bool)
    np.testing.assert_allclose(unpacked(drawn["share"]), bits.mean(axis=0), atol=1e-6)
    expected = np.corrcoef(bits.T.astype(float))
    np.testing.assert_allclose(unpacked(drawn["correlations"]) / 127, expected, atol=0.006)
    on, off = unpacked(drawn["on"]), unpacked(drawn["off"])
    for bit in range(20):
        assert bits[on[bit], bit].all() and not bits[off[bit], bit].any()
        other, value = drawn["partners"][bit][0]
        assert abs(value) == pytest.approx(
            np.abs(np.delete(expected[bit], bit)).max(), abs=0.001
        ) and value == pytest.approx(expected[bit, other], abs=0.001)
    templates = unpacked(drawn["templates"]) * drawn["template_scale"] / 127
    one = sghash.pack_bits(np.eye(20, dtype=bool)[[4]])
    added = sample.model.decode(one) - sample.model.decode(np.zeros_like(one))
    np.testing.assert_allclose(templates[4], added[0], atol=drawn["template_scale"] / 100)
    # A bit that tells the kinds apart is named by their words.
    named = {word for words in drawn["words"] for word in words}
    assert named & {"river", "stone", "horse"} and not named & {"number"}


def test_the_decoder_taken_apart_decodes_the_same(collection):
    sample = Sample(collection)
    decoded = sample.decoder.origin + sample.bits @ sample.decoder.directions
    np.testing.assert_allclose(decoded, sample.model.decode(sample.codes), atol=1e-4)
    lengths = np.square(sample.bits @ sample.decoder.directions).sum(axis=1)
    np.testing.assert_allclose(sample.decoder.squares(sample.bits), lengths, rtol=1e-4)


@pytest.mark.parametrize("most", [1, 3000])
def test_long_texts_make_a_small_sample(collection, monkeypatch, most):
    state = collection.moment.state
    sizes = text_bytes(state, collection.ids, with_metadata=True)
    assert sizes.sum() > 3000
    monkeypatch.setattr("sghash.serve.explorer.sample._MOST_TEXT", most)
    sample = Sample(collection)
    taken = text_bytes(state, sample.ids, with_metadata=True).sum()
    assert len(sample) == 1 if most == 1 else (0.5 * most < taken <= most)


def test_a_map_is_of_a_sample_that_is_the_same_every_time(collection):
    sample = Sample(collection, most=50)
    assert len(sample) == 50 and sample.n_all == 298
    assert np.array_equal(sample.ids, Sample(collection, most=50).ids)
    drawn = drawn_map(sample)
    assert set(drawn["bases"]) == {"codes", "vectors"}
    kinds = drawn["colourings"][0]
    assert (kinds["column"], kinds["names"]) == ("kind", ["kind 0", "kind 1", "kind 2"])
    sizes = next(c for c in drawn["colourings"] if c["column"] == "size")
    assert sizes["names"] is None


class Shrinking:
    """A collection that has one row less whenever something of it was looked at."""

    def __init__(self, collection):
        self.inner = collection

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        self.inner.delete(self.inner.ids[:1])
        return value


def test_a_sample_is_of_one_moment(collection, tmp_path):
    vectors = collection.get(collection.ids).vectors
    with Collection.create(tmp_path / "rows", collection.model, keep_vectors="float32") as rows:
        rows.add(vectors)
        sample = Sample(Shrinking(rows))
        np.testing.assert_array_equal(sample.vectors, vectors)
        # What was drawn is shown as far as it is still there.
        shown = rows_of(rows.moment, sample.ids[:3], sample.looks, sample.brightness)
        assert [row["id"] for row in shown["rows"]] == ["1", "2"]


def test_looks_are_guessed_where_nobody_told():
    metadata = {
        "photo": ["a.JPG", None, "b.png"] * 5,
        "said": [f"a longer text {n}" for n in range(15)],
        "kind": [1, 2, None] * 5,
    }
    looks = looks_of({}, {"open": [True, False, None] * 5, **metadata})
    assert (looks.image, looks.text, looks.label, looks.picture) == ("photo", "said", "kind", None)
    assert looks_of({"text": "photo", "picture": "2x3x3"}, metadata).picture == (2, 3, 3)
    assert looks_of({"text": "gone", "image": "gone", "label": "gone"}, metadata)[:3] == looks[:3]
    assert looks_of({}, {}) == (None, None, None, None, True)


@pytest.mark.slow
def test_recall_is_measured_on_rows_left_out(collection):
    found = tradeoff(Sample(collection), lengths=(8, 20))
    assert [point["n_bits"] for point in found["points"]] == [8, 20]
    short, long = (point["hamming"] for point in found["points"])
    assert short[0] < long[0] and short == sorted(short) and found["n_queries"] == 59
    assert len(tradeoff(Sample(collection), lengths=())["points"]) == 1
    few = Sample(collection, most=20)
    assert "100 rows" in tradeoff(few)["missing"]


def test_arrays_come_back_and_unknown_types_are_refused():
    for dtype in ("uint8", "int16", "float32"):
        array = np.arange(6).reshape(2, 3).astype(dtype)
        assert np.array_equal(unpacked(json.loads(json_text(packed(array)))), array)
    with pytest.raises(TypeError, match="float64"):
        packed(np.zeros(2))
    assert (plain(float("nan")), plain(2**60), plain(True)) == ("nan", str(2**60), True)


def test_words_are_found_phrases_first():
    ids = np.array([3, 5, 9])
    texts = ["red boat", "a boat that is red", "nothing"]
    assert ids_found(texts, ids, "Red Boat", 5).tolist() == [3, 5]
    assert ids_found(texts, ids, " ", 5).tolist() == []


def test_one_file_holds_all_and_names_no_outside_address(collection, tmp_path):
    path = tmp_path / "rows.html"
    done = write_export(path, {"rows": Given(collection, lengths=())}, most_rows=100)
    text = path.read_text(encoding="utf-8")
    assert (done.n_rows, done.n_all) == (100, 298) and done.n_bytes == path.stat().st_size
    addresses = set(re.findall(r"https?://[^\s\"'<>)\\]+", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set() and "{{" not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    held = data["collections"]["rows"]
    assert len(held["rows"]) == 100 and held["about"]["n"] == 298
    rounded = held["vectors"]
    vectors = unpacked(rounded["rows"]) * unpacked(rounded["scales"])[:, None]
    kept = collection.get([int(i) for i in held["map"]["ids"]]).vectors
    np.testing.assert_allclose(vectors, kept, atol=np.abs(kept).max() / 200)


def test_no_text_can_end_the_script_that_holds_it():
    data = json_text({"text": "</script><script>alert(1)</script><!--"})
    text = document("</title><b>", data)
    assert "</script><script>alert" not in text and "<b>" not in text.split("<style>")[0]
    held = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert json.loads(held) == json.loads(data)


def test_an_empty_collection_and_vectors_of_another_number_are_refused(collection, tmp_path):
    with Collection.create(tmp_path / "none", collection.model) as empty:
        with pytest.raises(InvalidInput, match="no rows"):
            write_export(tmp_path / "x.html", {"none": empty})
        assert drawn_map(Sample(empty))["ids"] == []
    with pytest.raises(InvalidInput, match="298 rows"):
        Sample(collection, vectors=np.zeros((5, 24), np.float32))
    assert not (tmp_path / "x.html").exists()


@pytest.mark.slow
def test_codes_of_bytes_have_no_bits_but_neighbours(collection, tmp_path):
    vectors = collection.get(collection.ids).vectors
    model = sghash.ProductQuantizer(4, random_state=0).fit(vectors)
    with Collection.create(tmp_path / "pq", model) as quantized:
        quantized.add(vectors)
        sample = Sample(quantized)
        data = static_data("pq", Given(quantized), sample)
        assert data["bits"] == {} and data["about"]["measures"] == ["decoder"]
        said = asked(quantized, {"id": "3"})
        assert list(said["columns"]) == ["decoder"] and "shells" not in said


def test_pictures_are_read_below_their_folder_alone(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(PNG)
    (folder / "b.txt").write_bytes(b"secret")
    (tmp_path / "outside.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    assert read_picture(folder, "a.png") == (PNG, "image/png")
    assert embedded(folder, "a.png", 1000).startswith("data:image/png;base64,")
    assert embedded(folder, "a.png", 10) is None and embedded(folder, "gone.png", 99) is None
    for name in ("../outside.png", str(tmp_path / "outside.png"), "link.png", "", "\0", "gone"):
        with pytest.raises(MissingData):
            read_picture(folder, name)
    with pytest.raises(InvalidInput, match=r"no PNG"):
        read_picture(folder, "b.txt")


def test_a_table_for_embedding_atlas(collection, tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from sghash.serve.explorer.atlas import atlas_table

    table = atlas_table(Sample(collection))
    assert table.num_rows == 298
    assert {"id", "projection_x", "projection_y", "neighbors", "text"} <= set(table.column_names)
    first = table["neighbors"][0].as_py()
    assert len(first["ids"]) == 10 and 0 not in first["ids"]
    codes = collection.get(collection.ids).codes
    assert first["distances"][0] == np.unpackbits(codes[0] ^ codes[first["ids"][0]]).sum()
