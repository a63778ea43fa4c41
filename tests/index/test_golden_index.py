"""Index files of every version that was ever written stay readable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sghash.bits import pack_bits
from sghash.index import HammingIndex, MultiIndex, PartitionedIndex, TableIndex
from sghash.tables import QueryTables
from tests.index.version_1 import write_version_1

GOLDEN = Path(__file__).parents[1] / "golden"
QUERIES = QueryTables(
    ((np.arange(2 * 21).reshape(2, 21) * 23) % 7 - 3).astype(np.float32),
    np.asarray([1, 2], dtype=np.float32),
)


def filled(index):
    """The content of the golden files, written out once and never changed."""
    bits = (np.arange(7 * 21).reshape(7, 21) * 37) % 5 < 2
    index.add(pack_bits(bits), ids=[2, 3, 5, 7, 11, 13, 17])
    index.delete([17])
    return index


def golden_index():
    return filled(HammingIndex(21))


def golden_tables():
    gram = (np.add.outer(np.arange(21), np.arange(21)) % 4 - 1).astype(float)
    return filled(TableIndex(3, n_bits=21, gram=gram))


def golden_lists():
    gram = (np.add.outer(np.arange(21), np.arange(21)) % 4 - 1).astype(float)
    return filled(PartitionedIndex(3, n_bits=21, gram=gram, n_lists=2, spill=0.5))


def golden_parts():
    return filled(MultiIndex(21, n_parts=3))


FILES = {
    "index-v1.sgh": golden_index,
    "index-v2.sgh": golden_index,
    "index-v2-tables.sgh": golden_tables,
    "index-v2-partitioned.sgh": golden_lists,
    "index-v2-multi.sgh": golden_parts,
}


def test_every_golden_file_is_read_here():
    assert {path.name for path in GOLDEN.glob("index-*")} == set(FILES)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mmap", [False, True])
def test_golden_files_stay_readable(name, mmap):
    expected = FILES[name]()
    index = type(expected).load(GOLDEN / name, mmap=mmap)
    assert index.n_bits == 21 and index.ids.tolist() == [2, 3, 5, 7, 11, 13]
    np.testing.assert_array_equal(index.codes, expected.codes)
    queries = expected.codes[:2] if index.kind in ("hamming", "multi") else QUERIES
    for found, right in zip(index.search(queries, 4), expected.search(queries, 4), strict=True):
        np.testing.assert_array_equal(found, right)
    index.add(expected.codes[:1])
    assert index.ids[-1] == 18  # the number of the deleted row is not used again


def test_golden_tables_give_the_scores_they_always_gave():
    """Written out here, so that a change of the kernels shows as well."""
    found = TableIndex.load(GOLDEN / "index-v2-tables.sgh").search(QUERIES, 3)
    assert found.ids.tolist() == IDS and found.distances.tolist() == SCORES


IDS = [[11, 3, 5], [11, 3, 5]]
SCORES = [[29.0, 30.0, 35.0], [30.0, 31.0, 36.0]]


@pytest.mark.parametrize("name", [name for name in FILES if "v2" in name])
def test_what_is_written_today_is_the_newest_golden_file(name, tmp_path):
    FILES[name]().save(tmp_path / "index")
    assert (tmp_path / "index").read_bytes() == (GOLDEN / name).read_bytes()


def test_the_writer_of_old_files_in_the_tests_writes_what_was_written_then(tmp_path):
    write_version_1(tmp_path / "index", golden_index(), next_id=18)
    assert (tmp_path / "index").read_bytes() == (GOLDEN / "index-v1.sgh").read_bytes()


@pytest.mark.parametrize("mmap", [False, True])
def test_an_old_file_that_is_saved_again_is_a_new_one(tmp_path, mmap):
    HammingIndex.load(GOLDEN / "index-v1.sgh", mmap=mmap).save(tmp_path / "index")
    assert (tmp_path / "index").read_bytes() == (GOLDEN / "index-v2.sgh").read_bytes()
