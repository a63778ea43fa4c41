"""Collections of every format version that was ever written stay readable."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection.storage import writer

GOLDEN = Path(__file__).parents[1] / "golden"


def numbers(n):
    return ((np.arange(n * 6).reshape(n, 6) * 37) % 11 - 5).astype(np.float32)


def write_golden(path):
    """Every kind of file and section, written out once and never changed."""
    model = sghash.models.LSH(n_bits=13, random_state=0).fit(numbers(50))
    with Collection.create(path, model, keep_vectors="float16") as collection:
        collection.add(numbers(6), list("abcdef"), {"n": range(6), "t": ["x", None] * 3})
        collection.compact()
        collection.delete(["b"])
        writer.LOG_RECORDS = 1
        collection.upsert(numbers(9)[8:], ["c"], {"f": [0.5]})
        writer.LOG_RECORDS = 1024
        collection.add(numbers(12)[10:], [40, 50])
        collection.delete([0])


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("collection-v*")), ids=lambda p: p.name)
def test_golden_collections_stay_readable(path, tmp_path):
    shutil.copytree(path, tmp_path / "c")
    for writable in (False, True):
        with Collection.open(tmp_path / "c", writable=writable) as collection:
            assert collection.verify()[:2] == (6, 3)
            assert collection.ids.tolist() == [2, 3, 4, 5, 40, 50]
            found = collection.get(collection.ids)
            assert found.keys == ["c", "d", "e", "f", None, None]
            assert found.metadata == {
                "f": [0.5, None, None, None, None, None],
                "n": [None, 3, 4, 5, None, None],
                "t": [None, None, "x", None, None, None],
            }
            expected = np.vstack([numbers(9)[8:], numbers(6)[3:], numbers(12)[10:]])
            np.testing.assert_array_equal(found.vectors, expected)
            np.testing.assert_array_equal(found.codes, collection.model.encode(expected))
    with Collection.open(tmp_path / "c", writable=True) as collection:
        assert collection.add(numbers(1)).tolist() == [51]


def test_there_is_one_of_every_version():
    from sghash.collection.storage.manifest import VERSION

    names = sorted(path.name for path in GOLDEN.glob("collection-v*"))
    assert names == [f"collection-v{version}" for version in range(1, VERSION + 1)]


if __name__ == "__main__":
    write_golden(Path(sys.argv[1]))
