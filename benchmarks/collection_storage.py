"""What durability costs: adding beside encoding alone, opening, reading while another adds.

    python benchmarks/collection_storage.py            # 1M vectors, 50M codes, 20 s of stress
    python benchmarks/collection_storage.py --quick    # small, for a look

Each figure stands beside its target. The folder for the trial collections is --folder (default:
the system's temporary folder, which should be on a real disk for the first figure to mean much).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import sghash
from sghash import Collection

WIDTH = 128


def model_for(n_bits=64):
    rng = np.random.default_rng(0)
    training = rng.standard_normal((20_000, WIDTH), dtype=np.float32)
    return sghash.SGH(n_bits=n_bits, n_steps=200, random_state=0).fit(training)


def adding(folder: Path, n: int, batch: int) -> None:
    """Encode alone and add take turns, batch by batch, so that a busy moment hits both."""
    model, rng = model_for(), np.random.default_rng(1)
    vectors = rng.standard_normal((10 * batch, WIDTH), dtype=np.float32)
    collection = Collection.create(folder / "adding", model)
    model.encode(vectors[:batch])
    collection.add(vectors[:batch])
    encoding = adding = syncing = 0.0
    probe = os.open(folder / "probe", os.O_RDWR | os.O_CREAT)
    for start in range(0, n, batch):
        block = vectors[start % len(vectors) :][:batch]
        first = time.perf_counter()
        model.encode(block)
        second = time.perf_counter()
        collection.add(block)
        third = time.perf_counter()
        os.write(probe, bytes(8 * batch))
        os.fsync(probe)
        encoding, adding = encoding + second - first, adding + third - second
        syncing += time.perf_counter() - third
    os.close(probe)
    print(f"\n{n:,} vectors of {WIDTH} in batches of {batch:,}, 64 bits")
    print(f"  encode alone         {n / encoding:12,.0f} vectors/s")
    print(f"  add, durable         {n / adding:12,.0f} vectors/s = {encoding / adding:.0%} of it "
          "(target 50%)")  # fmt: skip
    print(f"  one bare write+fsync {syncing / (n / batch) * 1e3:12.2f} ms per batch on this disk, "
          f"encoding {encoding / (n / batch) * 1e3:.2f} ms")  # fmt: skip
    collection.close()


def opening(folder: Path, n: int) -> None:
    model, rng = model_for(), np.random.default_rng(2)
    collection = Collection.create(folder / "opening", model)
    block = rng.integers(0, 256, (n // 10, 8), dtype=np.uint8)
    for _ in range(10):
        collection.add_codes(block, fingerprint=model.fingerprint_)
    collection.close()
    Collection.open(folder / "adding")
    started = time.perf_counter()
    opened = Collection.open(folder / "opening")
    seconds = time.perf_counter() - started
    print(f"\nopening {len(opened):,} codes ({opened.stats()['segment_bytes'] / 1e6:.0f} MB, "
          f"{opened.stats()['n_segments']} segments): {seconds:.4f} s (target 0.1 s)")  # fmt: skip


def stress(folder: Path, seconds: float, n_readers: int = 2) -> None:
    """One process writes batches of ten rows of one version, others read and look for mixtures."""
    path = folder / "stress"
    Collection.create(path, model_for(), keep_vectors="float16").close()
    ends = time.time() + seconds
    readers = []
    for number in range(n_readers):
        out, into = os.pipe()
        child = os.fork()
        if not child:
            os.close(out)
            _in_child(lambda: _read(path, ends), into, number)
        os.close(into)
        readers.append((child, out))
    writes = _write(path, ends)
    print(f"\n{seconds:.0f} s of stress: the writer made {writes}")
    for child, out in readers:
        report = os.read(out, 4096).decode()
        _, status = os.waitpid(child, 0)
        print(f"  reader: {report or 'died'} (exit {os.waitstatus_to_exitcode(status)})")


def _in_child(work, into, number):
    status = 1
    try:
        os.write(into, str(work()).encode())
        status = 0
    except BaseException as error:
        os.write(into, f"reader {number} failed: {error!r}".encode())
    finally:
        os._exit(status)


def _write(path, ends):
    rng, counts, version = np.random.default_rng(3), {"adds": 0, "upserts": 0, "deletes": 0}, 0
    counts["compactions"] = 0
    batches: list[int] = []
    with Collection.open(path, writable=True) as collection:
        while time.time() < ends:
            version += 1
            vectors = np.tile(rng.standard_normal((1, WIDTH), dtype=np.float32), (10, 1))
            old = int(rng.choice(batches)) if batches else 0
            ids = np.arange(10 * old, 10 * old + 10)
            stamp = {"version": [version] * 10}
            if len(batches) > 60:
                collection.delete(ids)
                batches.remove(old)
                counts["deletes"] += 1
            elif version % 3 and batches:
                collection.upsert(vectors, ids, stamp)
                counts["upserts"] += 1
            else:
                collection.add(vectors, np.arange(10 * version, 10 * version + 10), stamp)
                batches.append(version)
                counts["adds"] += 1
            if version % 200 == 0:
                collection.compact()
                counts["compactions"] += 1
    return counts


def _read(path, ends):
    """Every batch must be there whole and of one version, every answer of a living row."""
    reader, counts = (
        Collection.open(path),
        {"refreshes": 0, "searches": 0, "torn": 0, "verified": 0},
    )
    rng = np.random.default_rng(4)
    while time.time() < ends:
        reader.refresh()
        counts["refreshes"] += 1
        ids = reader.ids
        _, sizes = np.unique(ids // 10, return_counts=True)
        counts["torn"] += int(np.count_nonzero(sizes != 10))
        if not len(ids):
            continue
        versions = np.asarray(reader.get(ids).metadata["version"]).reshape(-1, 10)
        counts["torn"] += int(np.count_nonzero(versions != versions[:, :1]))
        found = reader.search(
            rng.standard_normal((4, WIDTH), dtype=np.float32), 10, rerank="vectors"
        )
        counts["torn"] += int(np.count_nonzero(~np.isin(found.ids, ids)))
        counts["searches"] += 4
        if counts["refreshes"] % 50 == 0:
            reader.verify()
            counts["verified"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of the sizes, 4 s of stress"
    )
    parser.add_argument("--folder", type=Path, help="where to make the trial collections")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.folder, prefix="collection-"))
    scale = 50 if options.quick else 1
    try:
        # Forked readers need a process that has not started threads yet.
        stress(root, 4.0 if options.quick else 20.0)
        adding(root, 1_000_000 // scale, 10_000)
        opening(root, 50_000_000 // scale)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
