"""Staged segments that are damaged, or nonsense under right checksums, are never committed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sghash
from sghash import Collection, InvalidInput
from sghash.collection.storage import disk
from sghash.collection.storage.segments import MAGIC
from sghash.collection.storage.texts import key_table, texts_of
from sghash.errors import BadFile
from sghash.index.container import Packing, read_sections, section_of
from tests.collection.jobs.staged import staged_for

N = 90


def spoil_bytes(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def spoil_end(path):
    path.write_bytes(path.read_bytes()[:-8])


def spoil_name(path):
    path.unlink()


def spoil_link(path):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


@pytest.mark.parametrize("spoil", [spoil_bytes, spoil_end, spoil_name, spoil_link])
def test_a_damaged_segment_is_refused_and_made_again(collection, files, tmp_path, spoil):
    staged = staged_for(collection, files)
    path = next((tmp_path / "c" / "staged").rglob(staged[1].file))
    spoil(path)
    with pytest.raises(BadFile, match=r"part 1|encode its task|checksum"):
        collection.commit(staged, job="j")
    assert len(collection) == 0 and collection.verify().n_rows == 0
    if spoil is not spoil_link:  # that one is whole, only no file of its own
        assert collection.commit(staged_for(collection, files), job="j") == N


def rewritten(path, change):
    """The same file with other contents and right checksums; returns the new checksum."""
    file = read_sections(path, MAGIC)
    about, arrays = dict(file.about), {name: a.copy() for name, a in file.arrays.items()}
    about.pop("sections", None)
    change(about, arrays)
    sections = {name: section_of(array) for name, array in arrays.items()}
    path.unlink()
    disk.write_new(path, packing := Packing(MAGIC, about, sections))
    return packing.checksum


def shorter(about, arrays):
    about["n"] -= 1
    arrays["codes"] = arrays["codes"][1:]


def own_ids(about, arrays):
    arrays["ids"] = np.arange(about["n"], dtype=np.int64)


def padding(about, arrays):
    arrays["codes"][0, -1] |= 1


def with_keys(arrays, keys=None, shift=0):
    texts = texts_of(keys or [f"k{row}" for row in range(len(arrays["codes"]))])
    arrays["keys.offsets"], arrays["keys.blob"] = texts
    arrays["keys.hashes"], arrays["keys.rows"] = key_table(texts)
    arrays["keys.hashes"] = arrays["keys.hashes"] + np.uint64(shift)


WRONG = {
    "another part": lambda about, arrays: about.update(part=1),
    "another id": lambda about, arrays: about.update(first=1),
    "another job": lambda about, arrays: about.update(job="0" * 32),
    "another collection": lambda about, arrays: about.update(collection="0" * 32),
    "another model": lambda about, arrays: about.update(model="0" * 64),
    "another kind": lambda about, arrays: about.update(kind="tables"),
    "fewer rows": shorter,
    "own ids": own_ids,
    "bits beyond the last": padding,
    "a column without values": lambda about, arrays: about.update(kinds={"n": "int"}),
    "keys that nobody finds": lambda about, arrays: with_keys(arrays, shift=1),
    "one key for all": lambda about, arrays: with_keys(arrays, ["a"] * about["n"]),
    "no codes": lambda about, arrays: arrays.pop("codes"),
}


def test_the_same_contents_written_again_are_accepted(tmp_path, training, files):
    """What is refused below is refused for its nonsense, not for having been rewritten."""
    odd = sghash.ITQ(n_bits=11, random_state=0).fit(training)
    with Collection.create(tmp_path / "c", odd) as collection:
        (one, *rest) = staged_for(collection, files)
        (path,) = (tmp_path / "c" / "staged").glob(f"*/*/{one.file}")
        one = replace(one, checksum=rewritten(path, lambda about, arrays: None))
        assert collection.commit([one, *rest], job="j") == N
        assert collection.verify().n_rows == N


@pytest.mark.parametrize("wrong", WRONG)
def test_nonsense_with_right_checksums_is_refused(tmp_path, training, files, wrong):
    odd = sghash.ITQ(n_bits=11, random_state=0).fit(training)
    with Collection.create(tmp_path / "c", odd) as collection:
        (one, *rest) = staged_for(collection, files)
        (path,) = (tmp_path / "c" / "staged").glob(f"*/*/{one.file}")
        one = replace(one, checksum=rewritten(path, WRONG[wrong]))
        with pytest.raises((BadFile, InvalidInput)):
            collection.commit([one, *rest], job="j")
        assert len(collection) == 0
        path.unlink()
        assert collection.commit(staged_for(collection, files), job="j") == N
