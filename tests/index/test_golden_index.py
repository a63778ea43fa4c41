"""Index files of every version that was ever written stay readable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sghash

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_index() -> sghash.HammingIndex:
    """The content of the golden files, written out once and never changed."""
    bits = (np.arange(7 * 21).reshape(7, 21) * 37) % 5 < 2
    index = sghash.HammingIndex(n_bits=21)
    index.add(sghash.pack_bits(bits), ids=[2, 3, 5, 7, 11, 13, 17])
    index.delete([17])
    return index


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("index-v*.sgh")), ids=lambda p: p.stem)
@pytest.mark.parametrize("mmap", [False, True])
def test_golden_files_stay_readable(path, mmap):
    index, expected = sghash.HammingIndex.load(path, mmap=mmap), golden_index()
    assert index.n_bits == 21 and index.ids.tolist() == [2, 3, 5, 7, 11, 13]
    np.testing.assert_array_equal(index.codes, expected.codes)
    index.add(expected.codes[:1])
    assert index.ids[-1] == 18  # the number of the deleted row is not used again


def test_what_is_written_today_is_the_newest_golden_file(tmp_path):
    golden_index().save(tmp_path / "index")
    newest = max(GOLDEN.glob("index-v*.sgh"))
    assert (tmp_path / "index").read_bytes() == newest.read_bytes()
