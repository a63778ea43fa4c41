"""Index files that are damaged although their checksums fit: refused in a sentence."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from sghash.bits import pack_bits
from sghash.errors import BadFile, InvalidInput, NewerFormat
from sghash.index import INDEXES, HammingIndex, TableIndex
from sghash.index.file import verify_index
from tests.index.version_2 import Parts

BITS = 20
KINDS = {"hamming": HammingIndex, "tables": TableIndex}


def gram_of(n_bits):
    half = np.random.default_rng(3).standard_normal((n_bits, n_bits))
    return half + half.T


@pytest.fixture(params=KINDS)
def path(request, tmp_path, rng):
    """A file of either kind: 50 rows of 20 bits, ids with gaps."""
    index = HammingIndex(BITS)
    if request.param == "tables":
        index = TableIndex(3, n_bits=BITS, gram=gram_of(BITS))
    index.add(pack_bits(rng.random((50, BITS)) < 0.5), ids=np.arange(50) * 3)
    path = tmp_path / request.param
    index.save(path)
    return path


@pytest.fixture
def tables(tmp_path, rng):
    index = TableIndex(3, n_bits=BITS, gram=gram_of(BITS))
    index.add(pack_bits(rng.random((50, BITS)) < 0.5))
    index.save(tmp_path / "tables")
    return tmp_path / "tables"


def rewrite(path, change=None, **fields):
    """Change the header's fields, then whatever else; every checksum is right again."""
    parts = Parts(path.read_bytes())
    parts.about |= fields
    if change is not None:
        change(parts)
    path.write_bytes(parts.joined())


def refused(path, match, error=BadFile, modes=(False, True)):
    for mmap in modes:
        with pytest.raises(error, match=match) as caught:
            KINDS[path.name].load(path, mmap=mmap)
        sentence = str(caught.value)
        assert str(path) in sentence and "\n" not in sentence
        assert len(sentence) < len(str(path)) + 250
    with pytest.raises(error):
        verify_index(path)


def test_a_file_taken_apart_and_put_together_is_the_same(path):
    assert Parts(path.read_bytes()).joined() == path.read_bytes()


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"7", b"[]", b"{}", b"{", b"\xff", b'{"n": 1}', b"[" * 60_000, b"9" * 5000,
     b'{"n":' * 10_000, json.dumps({}).encode("utf-16"), b" " * 70_000, b'{"sections": {}}',
     b'{"sections": [7]}', b'{"sections": "abc"}', b'{"sections": [["codes", "|u1", null]]}'],
    ids=lambda text: repr(text[:18]),
)  # fmt: skip
@pytest.mark.parametrize("fill", [False, True])
def test_another_text_than_a_header_is_refused(path, text, fill):
    def change(parts):
        parts.text = text.ljust(-(-(20 + len(text)) // 64) * 64 - 20) if fill else text

    rewrite(path, change)
    refused(path, "damaged")


def test_zeros_are_no_header(path):
    """The checksum of nothing is zero: lengths and checksums of zeros fit each other."""
    path.write_bytes(b"SGHINDEX" + struct.pack("<I", 2) + bytes(2000))
    refused(path, "header")


def test_versions_that_never_were_are_refused(path):
    def change(parts):
        parts.version = 0

    rewrite(path, change)
    refused(path, "header")


@pytest.mark.parametrize("name", ["n", "first", "next_id"])
@pytest.mark.parametrize(
    "value",
    [None, True, 1.0, "1", [], -1, 2**63 + 1, 10**400, float("nan"), float("inf")],
    ids=lambda value: repr(value)[:20],
)
def test_a_header_holds_whole_numbers(path, name, value):
    rewrite(path, **{name: value})
    refused(path, "its numbers are not valid")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"n": 49}, "codes are uint8"),
        ({"n": 0}, "codes are uint8"),
        ({"n": 2**50}, "codes are uint8"),
        ({"first": 1}, "ids do not rise"),
        ({"next_id": 0}, "next id is 0, its last one 147"),
        ({"next_id": 147}, "next id is 147, its last one 147"),
        ({"next_id": 2**63}, "numbers are not valid"),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_refused(path, fields, match):
    rewrite(path, **fields)
    refused(path, match)


@pytest.mark.parametrize("name", ["kind", "options", "n", "first", "next_id"])
def test_a_field_that_is_missing_is_named(path, name):
    rewrite(path, lambda parts: parts.about.pop(name))
    refused(path, f"it lacks '{name}'")


@pytest.mark.parametrize("kind", [None, 7, [], {}, ["hamming"]])
def test_a_kind_is_a_word(path, kind):
    rewrite(path, kind=kind)
    refused(path, "its kind or its options")


@pytest.mark.parametrize("kind", ["later", "", "a\nb", "x" * 10_000, "\ud800"])
def test_an_unknown_kind_is_one_of_a_later_version(path, kind):
    rewrite(path, kind=kind)
    refused(path, f"knows {', '.join(INDEXES)}: upgrade sghash", NewerFormat)


@pytest.mark.parametrize("options", [None, 7, "n_bits", [["n_bits", 20]], []])
def test_options_have_names(path, options):
    rewrite(path, options=options)
    refused(path, "its kind or its options")


@pytest.mark.parametrize("name", ["probes", "", "a\nb", "x" * 10_000, "codes", "self", "gram"])
def test_an_unknown_option_is_one_of_a_later_version(path, name):
    rewrite(path, lambda parts: parts.about["options"].update({name: 1}))
    refused(path, "does not know in an index of the kind", NewerFormat)


@pytest.mark.parametrize(
    "value",
    [None, True, 1.0, "20", [], 0, -1, 4097, 2**64, 10**400, float("nan"), "x\ny"],
    ids=lambda value: repr(value)[:20],
)
def test_an_option_is_a_whole_number_in_its_range(path, value):
    rewrite(path, lambda parts: parts.about["options"].update(n_bits=value))
    refused(path, "its n_bits is .*, not a number from 1 to 4096")


def test_a_file_without_options_is_refused(path):
    rewrite(path, lambda parts: parts.about["options"].clear())
    refused(path, "damaged")


@pytest.mark.parametrize("n_bits", [1, 8, 16, 25, 4096])
def test_codes_of_another_width_than_the_options_say_are_refused(path, n_bits):
    rewrite(path, lambda parts: parts.about["options"].update(n_bits=n_bits))
    refused(path, "bytes")


@pytest.mark.parametrize("n_bytes", [1, 2, 4, 512, 513])
def test_a_table_index_says_how_wide_its_codes_are(tables, n_bytes):
    rewrite(tables, lambda parts: parts.about["options"].update(n_bytes=n_bytes))
    refused(tables, "bytes")


def test_bytes_of_bits_are_not_taken_for_free_ones(tables):
    """Without its n_bits the gram has nothing to belong to."""
    rewrite(tables, lambda parts: parts.about["options"].pop("n_bits"))
    refused(tables, "give n_bits")


@pytest.mark.parametrize(
    "change",
    [lambda ids: ids[::-1], lambda ids: np.zeros_like(ids), lambda ids: ids - 1, np.negative,
     lambda ids: np.where(ids == 60, 63, ids)],
    ids=["falling", "equal", "from -1", "negative", "one twice"],
)  # fmt: skip
def test_ids_that_do_not_rise_are_refused(path, change):
    rewrite(path, lambda parts: parts.put("ids", np.ascontiguousarray(change(parts.array("ids")))))
    refused(path, "ids do not rise")


@pytest.mark.parametrize(
    "change",
    [lambda ids: ids.view("<u8"), lambda ids: ids.astype("<f8"), lambda ids: ids[:-1],
     lambda ids: ids[:, None], lambda ids: ids[:0], lambda ids: ids.view("|u1")],
    ids=["unsigned", "float", "one too few", "two dimensions", "none", "bytes"],
)  # fmt: skip
def test_ids_of_another_type_or_shape_are_refused(path, change):
    rewrite(path, lambda parts: parts.put("ids", np.ascontiguousarray(change(parts.array("ids")))))
    refused(path, "its ids are")


def test_the_largest_id_leaves_one_number(path):
    def change(parts):
        ids = parts.array("ids")
        ids[-1] = 2**63 - 1
        parts.put("ids", ids)

    rewrite(path, change, next_id=2**63 - 1)
    refused(path, "next id")


def test_ids_that_are_missing_make_the_next_one_wrong_or_the_first_ones_right(path):
    """Ids without gaps are not stored: the file then says 0, 1, 2, ..., and that is possible."""
    rewrite(path, lambda parts: parts.drop("ids"))
    for mmap in (False, True):
        assert KINDS[path.name].load(path, mmap=mmap).ids.tolist() == list(range(50))
    rewrite(path, next_id=49)
    refused(path, "next id is 49, its last one 49")


@pytest.mark.parametrize(
    "change",
    [lambda codes: codes[:-1], lambda codes: codes[:, :-1], lambda codes: codes.reshape(-1),
     lambda codes: codes.astype("<i8"), lambda codes: codes.view("|b1"), lambda codes: codes[:0],
     lambda codes: codes[:, :0], lambda codes: codes.reshape(75, 2)],
    ids=["a row less", "a byte less", "one dimension", "int64", "bool", "none", "no bytes",
         "other shape"],
)  # fmt: skip
def test_codes_of_another_type_or_shape_are_refused(path, change):
    def put(parts):
        codes = np.ascontiguousarray(change(parts.array("codes") & 1))
        parts.put("codes", codes)

    rewrite(path, put)
    refused(path, "codes")


@pytest.mark.parametrize("name", ["codes", "ids", "options.gram"])
def test_a_section_that_is_cut_short_is_refused(tables, name):
    def change(parts):
        if name == "ids":
            parts.put("ids", np.arange(50, dtype="<i8"))
        parts.data[name] = parts.data[name][:-64]

    rewrite(tables, change)
    refused(tables, "bytes where")


def test_codes_that_are_missing_are_named(path):
    rewrite(path, lambda parts: parts.drop("codes"))
    refused(path, "it lacks 'codes'")


@pytest.mark.parametrize("name", ["extra", "options.extra", "options.n_bits", "gram", "options."])
def test_a_section_that_belongs_to_nothing_is_refused(path, name):
    rewrite(path, lambda parts: parts.put(name, np.zeros((BITS, BITS))))
    refused(path, "does not know")


def test_a_hamming_index_has_no_gram(tmp_path):
    index = HammingIndex(4)
    index.add(np.zeros((3, 1), np.uint8))
    index.save(tmp_path / "hamming")
    rewrite(tmp_path / "hamming", lambda parts: parts.put("options.gram", np.eye(4)))
    refused(tmp_path / "hamming", "does not know", NewerFormat)


def test_a_section_twice_is_refused(path):
    rewrite(path, lambda parts: parts.table.append(parts.table[0]))
    refused(path, "twice")


@pytest.mark.parametrize(
    "entry",
    [["codes", "|O", [50, 3]], ["codes", "<U4", [50, 3]], ["codes", "|u1", [50, 3, 1]],
     ["codes", "|u1", []], ["codes", "|u1", [-50, -3]], ["codes", "|u1", [50.0, 3]],
     ["codes", "|u1", [True, 150]], ["codes", "|u1", [2**62, 2**62]], ["codes", "|u1", 150],
     [None, "|u1", [50, 3]], ["codes", None, [50, 3]], ["codes", "|u1"], "cod"],
    ids=str,
)  # fmt: skip
def test_an_entry_of_the_table_of_sections_is_checked(path, entry):
    def change(parts):
        parts.table[0] = entry

    rewrite(path, change)
    refused(path, "header")


@pytest.mark.parametrize("shape", [[2**47, 2**47], [2**47], [10**9, 3]])
def test_a_section_larger_than_the_file_allocates_nothing(path, shape):
    def change(parts):
        parts.table[0] = ["codes", "|u1", shape]

    rewrite(path, change)
    refused(path, "bytes where")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda gram: gram * np.nan, "finite"),
        (lambda gram: gram * np.inf, "finite"),
        (lambda gram: np.where(np.eye(len(gram)) > 0, np.nan, gram), "finite"),
        (lambda gram: gram * 1e300, "add up to more"),
        (lambda gram: np.triu(gram), "symmetric"),
        (lambda gram: np.triu(gram) * 1e-12, "symmetric"),
        (lambda gram: np.triu(gram) * 1e300, "add up to more"),
        (lambda gram: gram[:-1], "shape"),
        (lambda gram: gram[:-1, :-1], "shape"),
        (lambda gram: gram.reshape(-1), "shape"),
        (lambda gram: gram[:0], "shape"),
        (lambda gram: gram.astype("<f4"), "float32, not float64"),
        (lambda gram: gram.view("<i8"), "int64, not float64"),
        (lambda gram: gram > 0, "bool, not float64"),
    ],
)  # fmt: skip
def test_a_gram_is_finite_symmetric_and_of_its_size(tables, change, match):
    def put(parts):
        with np.errstate(invalid="ignore"):
            changed = np.ascontiguousarray(change(parts.array("options.gram")))
        parts.put("options.gram", changed)

    rewrite(tables, put)
    refused(tables, match)


def test_bits_set_in_the_padding_are_refused_when_the_rows_are_read(path):
    def change(parts):
        codes = parts.array("codes")
        codes[0, 2] |= 1
        parts.put("codes", codes)

    rewrite(path, change)
    refused(path, "padding after bit 20", modes=(False,))
    assert len(KINDS[path.name].load(path, mmap=True)) == 50


@pytest.mark.parametrize("name", ["ids", "options.gram"])
def test_what_is_mapped_tests_the_checksums_of_all_but_the_codes(tmp_path, name, rng):
    index = TableIndex(1, n_bits=3, gram=gram_of(3))
    index.add(pack_bits(rng.random((9, 3)) < 0.5), ids=np.arange(9) * 5)
    index.save(tmp_path / "tables")
    raw = (tmp_path / "tables").read_bytes()
    where = raw.index(Parts(raw).data[name])
    changed = raw[: where + 16] + bytes([raw[where + 16] ^ 1]) + raw[where + 17 :]
    (tmp_path / "tables").write_bytes(changed)
    refused(tmp_path / "tables", f"block 0 of its {name} fails its checksum")


def test_an_index_of_another_kind_is_refused_with_the_remedy(path):
    other = KINDS["tables" if path.name == "hamming" else "hamming"]
    for mmap in (False, True):
        with pytest.raises(InvalidInput, match="load it with the class of its kind"):
            other.load(path, mmap=mmap)


def test_a_file_of_the_kind_that_it_is_not_is_refused(path):
    """Only the word was changed: the options do not fit it."""
    other = "tables" if path.name == "hamming" else "hamming"
    rewrite(path, kind=other)
    path = path.rename(path.parent / other)
    refused(path, "damaged|does not know")


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("left", [0, 10, 300])
def test_a_file_that_is_cut_short_while_it_is_read_is_refused(tmp_path, monkeypatch, mmap, left):
    """Its length was right when the header was read."""
    from sghash.index import container

    path, index = tmp_path / "index", HammingIndex(64)
    index.add(np.zeros((5000, 8), dtype=np.uint8))
    index.save(path)

    def cut_then_place(status):
        with open(path, "r+b") as stream:
            stream.truncate(left)
        return 0, 0

    monkeypatch.setattr(container, "place_of", cut_then_place)
    with pytest.raises(BadFile, match=str(path)):
        HammingIndex.load(path, mmap=mmap)
