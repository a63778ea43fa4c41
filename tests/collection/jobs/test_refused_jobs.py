"""Jobs that are refused, each in a sentence that names what is wrong; nothing is left."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sghash
from sghash import Collection, InvalidInput, StorageError
from sghash.collection import encode_part
from sghash.collection.jobs import staging, tasks
from sghash.collection.storage.manifest import read_manifest, write_manifest
from sghash.errors import BadFile, MissingData
from tests.collection.jobs.staged import staged_for

N = 90


def test_another_job_of_the_same_name_is_refused(collection, files, vectors):
    collection.commit(staged_for(collection, files), job="j")
    np.save(files / "d.npy", vectors[:3])
    with pytest.raises(InvalidInput, match=r"prepared otherwise .* choose another name"):
        staged_for(collection, files)
    tasks = collection.prepare(files, job="k")
    other = [replace(encode_part(task), job="j") for task in tasks]
    with pytest.raises(InvalidInput, match="committed before, prepared otherwise"):
        collection.commit(other, job="j")
    assert len(collection) == N


def test_another_size_of_parts_is_named(collection, files):
    collection.commit(staged_for(collection, files), job="j")
    with pytest.raises(InvalidInput, match=r"\(other rows, or another rows_per_part\): choose"):
        staged_for(collection, files, rows_per_part=20)


def test_a_missing_part_is_named(collection, files):
    staged = staged_for(collection, files)
    with pytest.raises(InvalidInput, match="has 3 parts, and part 1 is missing: encode it first"):
        collection.commit([staged[0], staged[2]], job="j")
    for wrong in ([], "j", None, 3, [{}], ["{}"], [None]):
        with pytest.raises(InvalidInput):
            collection.commit(wrong, job="j")
    assert len(collection) == 0 and collection.commit(staged, job="j") == N


def test_parts_of_two_preparations_do_not_mix(collection, files):
    one, other = staged_for(collection, files), staged_for(collection, files, rows_per_part=50)
    assert len(one) == len(other) == 3 and one == other
    other = staged_for(collection, files, rows_per_part=20)
    with pytest.raises(InvalidInput, match="two preparations"):
        collection.commit([one[0], *other[1:]], job="j")
    with pytest.raises(InvalidInput, match="belongs to the job 'j', not to 'k'"):
        collection.commit(one, job="k")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": "0.0.9"}, "this worker has sghash .* install the same version everywhere"),
        ({"fingerprint": "0" * 64}, "the job was prepared for 000000000000: prepare it again"),
        ({"identity": "0" * 32}, "another collection for this worker"),
    ],
)
def test_a_strange_worker_is_refused_before_it_writes(
    collection, files, tmp_path, change, sentence
):
    task = collection.prepare(files, job="j")[0]
    with pytest.raises(InvalidInput, match=sentence):
        encode_part(replace(task, **change))
    assert not (tmp_path / "c" / "staged").exists()


def test_another_model_since_is_refused(tmp_path, model, training, files):
    with Collection.create(tmp_path / "k", model, keep_vectors="float32") as one:
        tasks = one.prepare(files, job="j")
        staged = [encode_part(task) for task in tasks]
        one.reencode(sghash.ITQ(n_bits=20, random_state=3).fit(training))
        with pytest.raises(InvalidInput, match="prepare it again"):
            encode_part(tasks[0])
        with pytest.raises(BadFile, match="was not written for part 0"):
            one.commit(staged, job="j")
        assert one.commit(staged_for(one, files), job="j") == N


def test_a_model_that_is_replaced_meanwhile_is_not_remembered(
    tmp_path, model, training, files, vectors, monkeypatch
):
    """Between two looks at the manifest: the codes of every later job would be those of another."""
    other, real = sghash.ITQ(n_bits=20, random_state=3).fit(training), staging._source_of
    with Collection.create(tmp_path / "k", model, keep_vectors="float32") as one:

        def meanwhile(*args):
            one.reencode(other)
            return real(*args)

        (task, *_) = one.prepare(files, job="j")
        monkeypatch.setattr(staging, "_source_of", meanwhile)
        with pytest.raises(InvalidInput, match="prepare it again"):
            encode_part(task)
        monkeypatch.undo()
        one.reencode(model)
        assert one.commit(staged_for(one, files), job="j") == N
        assert np.array_equal(one.get(one.ids).codes, model.encode(vectors[:N]))


def test_ids_that_were_given_away_are_refused(collection, files, vectors):
    staged = staged_for(collection, files)
    collection.add(vectors[:1])
    with pytest.raises(InvalidInput, match="ids from 0 on were given to other rows"):
        collection.commit(staged, job="j")
    assert len(collection) == 1
    assert collection.commit(staged_for(collection, files), job="j") == N
    assert collection.ids.tolist() == list(range(N + 1))


def test_a_name_outside_is_refused(collection, files, tmp_path):
    staged = staged_for(collection, files)
    for name in ("../../manifest.json", "/etc/passwd", "", "part-00000000-x"):
        with pytest.raises(InvalidInput, match="no staged segment"):
            collection.commit([replace(staged[0], file=name), *staged[1:]], job="j")
    lying = replace(staged[0], identity="0" * 32), replace(staged[0], checksum=7)
    for one in (*lying, replace(staged[0], n=3)):
        with pytest.raises((BadFile, InvalidInput)):
            collection.commit([one, *staged[1:]], job="j")
    swapped = replace(staged[0], file=staged[1].file)
    with pytest.raises(BadFile):
        collection.commit([swapped, *staged[1:]], job="j")
    assert len(collection) == 0


def test_a_file_that_has_changed_is_refused(collection, files, vectors):
    tasks = collection.prepare(files, job="j")
    np.save(files / "a.npy", vectors[:39])
    with pytest.raises(StorageError, match=r"a\.npy has changed since the job 'j' was prepared"):
        encode_part(tasks[0])
    (files / "a.npy").unlink()
    with pytest.raises(MissingData, match=r"a\.npy"):
        encode_part(tasks[0])


def test_a_file_rewritten_between_two_parts_is_refused(collection, files, vectors):
    """Of the same size: half of the old rows and half of the new ones would be committed."""
    tasks = collection.prepare(files / "a.npy", job="j", rows_per_part=20)
    encode_part(tasks[0])
    np.save(files / "a.npy", vectors[100:140])
    os.utime(files / "a.npy", ns=(1, 1))
    with pytest.raises(StorageError, match=r"a\.npy has changed since the job 'j' was prepared"):
        encode_part(tasks[1])


def test_a_file_rewritten_while_its_rows_are_counted_is_refused(
    collection, files, vectors, monkeypatch
):
    real = tasks.parts_of

    def meanwhile(*args, **options):
        found = list(real(*args, **options))
        np.save(files / "a.npy", vectors[100:145])
        return found

    monkeypatch.setattr(tasks, "parts_of", meanwhile)
    (task,) = collection.prepare(files / "a.npy", job="j")
    with pytest.raises(StorageError, match=r"a\.npy has changed since the job 'j' was prepared"):
        encode_part(task)


def test_a_file_rewritten_while_it_is_read_is_refused(
    collection, files, tmp_path, vectors, monkeypatch
):
    (task,) = collection.prepare(files / "a.npy", job="j")
    real = staging.check_vectors

    def meanwhile(block, **options):
        np.save(files / "a.npy", vectors[100:140])
        os.utime(files / "a.npy", ns=(1, 1))
        return real(block, **options)

    monkeypatch.setattr(staging, "check_vectors", meanwhile)
    with pytest.raises(StorageError, match=r"a\.npy has changed since the job 'j' was prepared"):
        encode_part(task)
    assert not [path for path in (tmp_path / "c" / "staged").rglob("*") if path.is_file()]


def test_new_contents_of_the_same_size_are_encoded_again(collection, files, vectors):
    staged_for(collection, files)
    np.save(files / "a.npy", vectors[100:140])
    os.utime(files / "a.npy", ns=(1, 1))
    collection.commit(staged_for(collection, files), job="j")
    expected = collection.model.encode(vectors[100:140])
    assert np.array_equal(collection.get(range(40)).codes, expected)


@pytest.mark.parametrize("place", ["beginning", "end"])
def test_files_of_another_folder_are_not_taken_for_these(
    collection, tmp_path, vectors, monkeypatch, place
):
    """The same names, sizes and times, as archives of every month have them."""
    monkeypatch.setattr(tasks, "_MARKED_BYTES", 200)
    february = vectors[:40].copy()
    february[0 if place == "beginning" else -1] *= -1
    for month, rows in (("january", vectors[:40]), ("february", february)):
        (tmp_path / month).mkdir()
        np.save(tmp_path / month / "part-0.npy", rows)
        os.utime(tmp_path / month / "part-0.npy", ns=(0, 0))
    staged_for(collection, tmp_path / "january")
    collection.commit(staged_for(collection, tmp_path / "february"), job="j")
    expected = collection.model.encode(february)
    assert np.array_equal(collection.get(range(40)).codes, expected)


def test_bad_rows_are_named_and_nothing_is_left(collection, files, tmp_path, vectors):
    bad = vectors[:40].copy()
    bad[21, 3] = np.nan
    np.save(files / "a.npy", bad)
    with pytest.raises(InvalidInput, match=r"a\.npy, rows 0 to 39: vectors contain NaN"):
        staged_for(collection, files)
    assert not [path for path in (tmp_path / "c" / "staged").rglob("*") if path.is_file()]


def test_files_that_differ_are_named(collection, files, vectors):
    np.save(files / "b.npy", vectors[:9].astype(np.float64))
    with pytest.raises(InvalidInput, match=r"b\.npy holds float64, .*a\.npy holds float32"):
        collection.prepare(files, job="j")
    np.save(files / "b.npy", vectors[:9, :11])
    with pytest.raises(InvalidInput, match=r"b\.npy holds vectors of 11 columns, .* for 12"):
        collection.prepare(files, job="j")
    with pytest.raises(InvalidInput, match="no files"):
        collection.prepare([], job="j")
    for job in ("", "a\nb", "x" * 201, 3, None):
        with pytest.raises(InvalidInput, match="job must be a name"):
            collection.prepare(files / "a.npy", job=job)
    with pytest.raises(InvalidInput, match="rows_per_part"):
        collection.prepare(files / "a.npy", job="j", rows_per_part=0)


def test_files_that_choose_other_columns_are_named(collection, tmp_path, vectors):
    rows = [list(row) for row in vectors[:9]]
    folder = tmp_path / "tables"
    folder.mkdir()
    pq.write_table(pa.table({"vectors": rows, "embedding": rows}), folder / "0.parquet")
    pq.write_table(pa.table({"vectors": rows}), folder / "1.parquet")
    with pytest.raises(InvalidInput, match=r"1\.parquet .* vectors, .*0\.parquet from embedding"):
        collection.prepare(folder, job="j")
    assert len(collection.prepare(folder, job="j", key="vectors")) == 2


def test_a_manifest_that_contradicts_itself_is_refused(collection, files, tmp_path):
    collection.commit(staged_for(collection, files), job="j")
    collection.close()
    folder = tmp_path / "c"
    manifest = read_manifest(folder)
    good = manifest.jobs["j"]
    for jobs in (
        {"": good}, {"j": {**good, "n": 0}}, {"j": {**good, "first": 10**6}}, {"j": {"n": 1}},
        {"j": {**good, "digest": "x"}}, {"j": {**good, "n": "9"}}, {"j": 3},
    ):  # fmt: skip
        write_manifest(folder, replace(manifest, jobs=jobs))
        with pytest.raises(BadFile):
            Collection.open(folder)
    write_manifest(folder, manifest)
    assert len(Collection.open(folder)) == N


def test_a_digest_that_no_reader_would_accept_is_not_written(collection, files):
    """Else nobody could open the collection again."""
    n, given = len(collection), collection.prepare(files, job="j")
    with pytest.raises(InvalidInput, match="cannot be written"):
        collection.commit([encode_part(replace(one, digest="x" * 32)) for one in given], job="j")
    assert len(Collection.open(collection.folder)) == n
