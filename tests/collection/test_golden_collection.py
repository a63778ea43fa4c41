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
from sghash.collection.storage.log import read_log
from sghash.collection.storage.manifest import (
    FLAT_VERSION,
    JOBS_VERSION,
    SEGMENT_KINDS,
    SMALL_VERSION,
    VERSION,
    read_manifest,
)
from sghash.index.container import read_sections
from sghash.kernels.reference import small as twin
from sghash.kernels.vectors.kinds import SMALL
from sghash.models.baselines.lsh import LSH

GOLDEN = Path(__file__).parents[1] / "golden"


def numbers(n):
    return ((np.arange(n * 6).reshape(n, 6) * 37) % 11 - 5).astype(np.float32)


def bits():
    return LSH(n_bits=13, random_state=0).fit(numbers(50))


def bytes_():
    options = {"n_parts": 2, "n_centroids": 4, "n_iterations": 5, "random_state": 0}
    return sghash.ProductQuantizer(**options).fit(numbers(50))


MODELS = {"hamming": bits, "tables": bytes_}


def write_golden(path, model, partitions=None, keep="float16", roles=None):
    """Every kind of file and section, written out once and never changed."""
    with Collection.create(path, model, keep_vectors=keep, partitions=partitions) as collection:
        collection.add(numbers(6), list("abcdef"), {"n": range(6), "t": ["x", None] * 3})
        collection.compact()
        collection.delete(["b"])
        writer.LOG_RECORDS = 1
        collection.upsert(numbers(9)[8:], ["c"], {"f": [0.5]})
        writer.LOG_RECORDS = 1024
        collection.add(numbers(12)[10:], [40, 50])
        collection.delete([0])
        if roles:
            collection.describe(**roles)


EXPECTED = np.vstack([numbers(9)[8:], numbers(6)[3:], numbers(12)[10:]])


def given_back(collection):
    """What is kept of these: a small kind gives other vectors back, and always the same."""
    kept = collection.stats()["keep_vectors"]
    return twin.grow(twin.shrink(EXPECTED, kept), 6) if kept in SMALL else EXPECTED


every_golden = pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("collection-v*")), ids=lambda path: path.name
)


@every_golden
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
            np.testing.assert_array_equal(found.vectors, given_back(collection))
            np.testing.assert_array_equal(found.codes, collection.model.encode(EXPECTED))
    with Collection.open(tmp_path / "c", writable=True) as collection:
        assert collection.add(numbers(1)).tolist() == [51]


@every_golden
def test_golden_collections_are_searched_and_say_what_they_are(path):
    collection = Collection.open(path)
    stats, queries = collection.stats(), EXPECTED + np.float32(0.01)
    assert stats["kind"] == ("tables" if path.name.endswith("tables") else "hamming")
    assert stats["format_version"] == int(path.name[len("collection-v")])
    codes = collection.get(collection.ids).codes
    found = collection.search(queries, 3, rerank="none", threads=1)
    if stats["kind"] == "hamming":
        apart = np.bitwise_count(collection.model.encode(queries)[:, None] ^ codes).sum(axis=2)
    else:
        decoded = collection.model.decode(codes)
        apart = np.square(queries[:, None] - decoded).sum(axis=2)
    order = np.argsort(apart, axis=1, kind="stable")[:, :3]
    np.testing.assert_allclose(found.distances, np.take_along_axis(apart, order, 1), rtol=1e-5)
    np.testing.assert_array_equal(found.ids, collection.ids[order])


@every_golden
def test_compact_brings_every_file_up_to_date(path, tmp_path):
    shutil.copytree(path, tmp_path / "c")
    old = path.name == "collection-v1"
    assert Collection.open(tmp_path / "c").stats()["has_old_files"] == old
    with Collection.open(tmp_path / "c", writable=True) as collection:
        before = collection.get(collection.ids)
        collection.compact()
        after = collection.get(collection.ids)
        assert all(np.array_equal(a, b) for a, b in zip(before[:3], after[:3], strict=True))
        assert not collection.stats()["has_old_files"]
        written = max(FLAT_VERSION, int(path.name[len("collection-v")]))
        assert collection.stats()["format_version"] == written
    assert Collection.open(tmp_path / "c").verify()[:2] == (6, 0)


def test_one_new_segment_does_not_bring_the_old_ones_up_to_date(tmp_path, monkeypatch):
    shutil.copytree(GOLDEN / "collection-v1", tmp_path / "c")
    monkeypatch.setattr(writer, "LOG_RECORDS", 1)
    with Collection.open(tmp_path / "c", writable=True) as collection:
        collection.add(numbers(1))
        stats = collection.stats()
    assert stats["format_version"] == FLAT_VERSION and stats["has_old_files"]


def test_there_is_one_of_every_version_and_of_every_kind():
    names = sorted(path.name for path in GOLDEN.glob("collection-v*"))
    assert names == [
        "collection-v1", "collection-v2", "collection-v2-tables", "collection-v3", "collection-v4",
        "collection-v4-int4", "collection-v6",
    ]  # fmt: skip
    kept = {Collection.open(GOLDEN / name).stats()["keep_vectors"] for name in names}
    assert kept == {"float16", *SMALL}
    # Version 5 is of collections with jobs: tests/collection/jobs.
    assert SMALL_VERSION + 2 == JOBS_VERSION + 1 == VERSION == 6
    assert set(MODELS) == set(SEGMENT_KINDS)


def test_the_golden_lists_are_searched(monkeypatch):
    monkeypatch.setattr("sghash.collection.lists.targets.FEW_ROWS", 0)
    collection = Collection.open(GOLDEN / "collection-v3")
    assert collection.stats()["lists"] == 2 and collection.stats()["rows_in_lists"] == 3
    found = collection.search(EXPECTED, 1, target_recall=0.9, threads=1)
    assert found.ids[:, 0].tolist() == [2, 3, 4, 5, 40, 50]


TODAY = ["collection-v2", "collection-v2-tables", "collection-v3", "collection-v4",
         "collection-v4-int4", "collection-v6"]  # fmt: skip
ROLES = {"text": "t", "label": "n", "picture": "2x3"}


def skeleton(folder):
    """What is in the files of a collection, without what is drawn at random."""
    found = {}
    for path in sorted(folder.glob("segment-*")) + sorted(folder.glob("deleted-*")):
        file = read_sections(path, path.read_bytes()[:8])
        about = {n: v for n, v in file.about.items() if n not in ("identity", "segment")}
        found[path.name] = about, {n: array.tolist() for n, array in file.arrays.items()}
    manifest = read_manifest(folder)
    drawn = ("identity", "log_identity", "segments", "model_files", "model_bytes")
    found["manifest"] = {n: v for n, v in vars(manifest).items() if n not in drawn}
    found["segments"] = [(e.file, e.n, e.deleted, e.kind, e.lists) for e in manifest.segments]
    found["records"] = [len(payload) for payload in read_log(folder / manifest.log).payloads]
    return found


@pytest.mark.parametrize("name", TODAY)
def test_what_is_written_today_is_the_newest_golden_collection(name, tmp_path):
    """With the model of then: one that is fitted today may be another."""
    golden = Collection.open(GOLDEN / name)
    stats = golden.stats()
    write_golden(
        tmp_path / "c", golden.model, stats["partitions"], stats["keep_vectors"], golden.roles
    )
    assert golden.roles == (ROLES if name == "collection-v6" else {})
    assert skeleton(tmp_path / "c") == skeleton(GOLDEN / name)


if __name__ == "__main__":
    n_lists = int(sys.argv[3]) if sys.argv[3:] and sys.argv[3] != "none" else None
    keep = sys.argv[4] if sys.argv[4:] else "float16"
    roles = ROLES if sys.argv[5:] else None
    write_golden(Path(sys.argv[1]), MODELS[sys.argv[2]](), n_lists, keep, roles)
