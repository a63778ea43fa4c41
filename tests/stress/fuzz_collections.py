"""Damaged collections whose checksums were made right again: told, harmless, or true to themselves.

    python tests/stress/fuzz_collections.py DAMAGES [SEED]      prints counts of every kind

A random bit is found by its checksum. Here somebody knows the format: headers, shapes, names,
offsets, identities and records are changed, and every checksum is computed again. Whatever was
done, nothing may crash or raise anything but `SghashError`; once `verify` has passed, the rows are
what they were, or (where a stored value was replaced by another possible one, which nobody could
tell) every answer agrees with the rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

import sghash
from sghash import BadFile, Collection, InvalidInput, StorageError
from sghash.collection.lists import targets
from sghash.collection.storage import writer
from sghash.collection.storage.log import START, Seal, create_log, read_log
from sghash.index.container import BLOCK

sys.path.insert(0, str(Path(__file__).parent))
from twins import has_tables, nearest_by_tables

WIDTH = 6
NUMBERS = [-1, 0, 1, 2, 7, 63, 300, 2**31, 2**32, 2**48, 2**62, 2**63 - 1, 2**63, 2**64, 1e308, 0.5]
ODD = [None, True, [], {}, "", "x", "../x", "\ud800", [[]] * 3, {"a": {}}, "segment-00000001"]
ODD += ["hamming", "tables", "cosine", "ip"]
TYPES = [
    "|u1",
    "|i1",
    "|b1",
    "<i8",
    "<u8",
    "<f2",
    "<f4",
    "<f8",
    "|O",
    "<U4",
    ">i8",
    "|V3",
    "nonsense",
]


def numbers(n, seed):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def make_collections(folder, seed=0):
    """One collection of every kind: what is kept, with and without keys, columns, deleted rows."""
    bits = sghash.ITQ(n_bits=13, random_state=0).fit(numbers(60, 0))
    names = sghash.ProductQuantizer(n_parts=2, n_centroids=4, random_state=0).fit(numbers(60, 0))
    paths = []
    for model, kept, lists in [(bits, None, None), (bits, "float16", None), (bits, "float32", None),
                               (names, None, None), (names, "float16", None), (bits, None, 3),
                               (bits, "float16", 2), (names, "float32", 3),
                               (bits, "int8", None), (bits, "int4", 2)]:  # fmt: skip
        path = folder / f"{type(model).__name__} {kept} {lists}"
        with Collection.create(path, model, keep_vectors=kept, partitions=lists) as collection:
            metadata = {"n": range(20), "t": ["x", None, "ü", "long text"] * 5, "b": [True] * 20}
            collection.add(numbers(20, seed + 1), [f"key{i}" for i in range(20)], metadata)
            collection.compact()
            before, writer.LOG_RECORDS = writer.LOG_RECORDS, 1
            collection.delete(["key3"])
            collection.add(numbers(9, seed + 2), [40, 41, 45, 50, 51, 52, 60, 70, 80])
            writer.LOG_RECORDS = before
            collection.upsert(numbers(3, seed + 3), ["key5", "u", "v"], {"f": [0.5, 1.5, None]})
            collection.delete([41])
        paths.append(path)
    return paths


def rows_of(folder):
    """All that is stored, after every checksum was tested."""
    collection = Collection.open(folder)
    collection.verify()
    records = collection.get(collection.ids)
    vectors = None if records.vectors is None else records.vectors.tobytes()
    # A column without any value is as good as none.
    columns = {name: v for name, v in records.metadata.items() if v.count(None) < len(v)}
    return records.ids.tolist(), records.keys, records.codes.tobytes(), vectors, columns


def use(folder, writing):
    """Call everything; whatever is found must agree with the rows."""
    collection = Collection.open(folder)
    queries = numbers(3, 9)
    for rerank in ("none", "decoder", *(["vectors"] if collection.stats()["keep_vectors"] else [])):
        collection.search(queries, 4, rerank=rerank, threads=1)
    targets.FEW_ROWS = 4  # lists of few rows are to be searched, too
    collection.search(queries, 4, target_recall=0.9, threads=1)
    collection.search(queries, 4, target_recall=0.9, where=collection.ids[:7], threads=1)
    records = collection.get(collection.ids)
    found = collection.search(queries, 5, rerank="none", threads=1)
    expected = nearest(collection, queries, records)
    assert np.array_equal(found.ids, expected), "the answer is not of these rows"
    if not has_tables(collection.model):
        collection.range_search(queries, 3, threads=1)
        collection.similarity_join(1, threads=1)
    for name, kind in collection.stats()["columns"].items():
        where = f"{name} == 'x'" if kind == "text" else f"{name} == 1"
        collection.search(queries, 2, where=where, threads=1)
    assert all(key is None or key in collection for key in records.keys)
    if writing:
        with Collection.open(folder, writable=True) as opened:
            try:
                new = opened.add(numbers(2, 10))
            except InvalidInput as error:
                if "cannot be numbered" in str(error):  # a next id that is possible, but the last
                    return
                raise
            assert len(set(opened.ids.tolist())) == len(opened) == len(collection) + 2
            opened.delete(new[:1])
            opened.compact()
        try:
            Collection.open(folder).verify()
        except BadFile as error:
            raise AssertionError("what could be written to cannot be read") from error


def nearest(collection, queries, records):
    """Ids of the five nearest rows, by what the rows themselves say."""
    model, ids, codes = collection.model, records.ids, records.codes
    if has_tables(model):
        return nearest_by_tables(model, collection.metric, queries, ids, codes, 5)[1]
    apart = np.bitwise_count(model.encode(queries)[:, None] ^ codes).sum(axis=2, dtype=np.int64)
    order = np.lexsort((np.broadcast_to(ids, apart.shape), apart), axis=1)[:, :5]
    return np.pad(ids[order], ((0, 0), (0, 5 - order.shape[1])), constant_values=-1)


def changed_value(rng, value):
    """Another value in the place of one: of its kind, of another kind, or nothing."""
    if isinstance(value, dict) and value and rng.random() < 0.7:
        return changed_entry(rng, dict(value))
    if isinstance(value, list) and value and rng.random() < 0.7:
        new = list(value)
        place = rng.randrange(len(new))
        how = rng.random()
        if how < 0.6:
            new[place] = changed_value(rng, new[place])
        elif how < 0.75:
            del new[place]
        elif how < 0.9:
            new.append(new[place])
        else:
            rng.shuffle(new)
        return new
    if type(value) is int and rng.random() < 0.6:
        return rng.choice([value + 1, value - 1, value * 2, -value, *NUMBERS])
    if isinstance(value, str) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return value[:place] + rng.choice("0f-./x\0") + value[place + 1 :]
    return rng.choice(NUMBERS + ODD + TYPES)


def changed_entry(rng, body):
    name = rng.choice(sorted(body))
    if rng.random() < 0.1:
        del body[name]
    elif rng.random() < 0.05:
        body[rng.choice(["extra", "n", "identity"])] = body[name]
    else:
        body[name] = changed_value(rng, body[name])
    return body


def damage_manifest(rng, folder, other):
    path = folder / "manifest.json"
    body = json.loads(path.read_bytes().partition(b"\n")[0])
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        body = changed_entry(rng, body) if body else body
    line = json.dumps(body).encode("utf-8", "surrogatepass")
    if rng.random() < 0.03:
        line = rng.choice([b"", b"[" * 100_000, b"null", b"{}", line[:-1]])
    path.write_bytes(line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")


def damage_header(rng, folder, other):
    path = rng.choice(sorted([*folder.glob("segment-*"), *folder.glob("deleted-*")]))
    data = path.read_bytes()
    magic, version, length, _ = struct.unpack_from("<8sIII", data)
    header = json.loads(data[20 : 20 + length])
    for _ in range(rng.choice([1, 1, 2])):
        header = changed_entry(rng, header) if header else header
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    text = text.ljust(-(-(20 + len(text)) // 64) * 64 - 20) if rng.random() < 0.9 else text
    head = struct.pack("<8sIII", magic, rng.choice([version] * 9 + [0]), len(text),
                       zlib.crc32(text))  # fmt: skip
    path.write_bytes(head + text + data[20 + length :])


def section_places(data):
    """Where each section of a file lies: name, type, first byte, number of bytes."""
    length = struct.unpack_from("<I", data, 12)[0]
    header, offset, places = json.loads(data[20 : 20 + length]), 20 + length, []
    for name, kind, shape in header["sections"]:
        size = np.dtype(kind).itemsize * int(np.prod(shape))
        places.append((name, kind, offset, size))
        offset += -(-size // 64) * 64
    return places, offset


def damage_section(rng, folder, other):
    """Change what an array holds, and compute the checksums of its blocks again."""
    path = rng.choice(sorted([*folder.glob("segment-*"), *folder.glob("deleted-*")]))
    data = bytearray(path.read_bytes())
    places, end = section_places(data)
    _, kind, offset, size = rng.choice([place for place in places if place[3]])
    item = np.dtype(kind).itemsize
    at = offset + item * rng.randrange(size // item)
    if kind in ("<i8", "<u8") and rng.random() < 0.7:
        value = rng.choice([-1, 0, 1, 5, 2**31, 2**62, 2**63 - 1, -(2**63)])
        data[at : at + 8] = struct.pack("<q", value)
    else:
        data[at] = rng.randrange(256)
    checksums = [
        zlib.crc32(data[first : min(first + BLOCK, start + n)])
        for _, _, start, n in places
        for first in range(start, start + n, BLOCK)
    ]
    tail = np.asarray(checksums, dtype="<u4").tobytes()
    path.write_bytes(bytes(data[:end]) + tail + struct.pack("<I", zlib.crc32(tail)))
    return "values"


def damage_log(rng, folder, other):
    """Records that were changed, dropped, doubled, reordered or taken from another log."""
    path = next(folder.glob("log-*"))
    contents = read_log(path)
    payloads = list(contents.payloads)
    how = rng.randrange(6)
    place = rng.randrange(len(payloads))
    if how == 0:
        length = struct.unpack_from("<I", payloads[place])[0]
        about = changed_entry(rng, json.loads(payloads[place][4 : 4 + length]))
        text = json.dumps(about).encode("utf-8", "surrogatepass")
        text = text.ljust(-(-(4 + len(text)) // 64) * 64 - 4)
        payloads[place] = struct.pack("<I", len(text)) + text + payloads[place][4 + length :]
    elif how == 1:
        payload = bytearray(payloads[place])
        payload[rng.randrange(len(payload))] = rng.randrange(256)
        payloads[place] = bytes(payload)
    elif how == 2:
        payloads[place] = payloads[place][: rng.randrange(len(payloads[place]))]
    elif how == 3:
        del payloads[place]
    elif how == 4:
        payloads.append(payloads[place])
    else:
        payloads += read_log(next(other.glob("log-*"))).payloads
    path.unlink()
    create_log(path, contents.identity, payloads)
    if rng.random() < 0.2:
        with open(path, "r+b") as stream:
            stream.seek(rng.choice([512, 1024]))
            stream.write(Seal(contents.identity).slot(rng.choice([0, START, START + 3, 2**62])))
    return "values"


def damage_files(rng, folder, other):
    """Files swapped, replaced by those of another collection, cut, lengthened, linked."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = rng.choice(files)
    how = rng.randrange(6)
    if how == 0:
        path.unlink()
    elif how == 1:
        theirs = sorted(p for p in other.rglob("*") if p.is_file() and p.name == path.name)
        shutil.copy(rng.choice(theirs or files), path) if theirs else path.write_bytes(b"")
    elif how == 2:
        path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])
    elif how == 3:
        path.write_bytes(path.read_bytes() + bytes(rng.randrange(1, 200)))
    elif how == 4:
        second = rng.choice(files).read_bytes()
        path.write_bytes(second)
    else:
        data = bytearray(path.read_bytes())
        for _ in range(3):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


DAMAGES = {
    "manifest": damage_manifest,
    "header": damage_header,
    "section": damage_section,
    "log": damage_log,
    "files": damage_files,
}


def run(seed, n):
    """Damage small collections `n` times; return counts, or raise at the first silent fault."""
    counts = Counter()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        home = Path(name)
        paths = make_collections(home)
        (home / "others").mkdir()
        others = make_collections(home / "others", seed=100)
        expected = {path: rows_of(path) for path in paths}
        work = home / "work"
        for trial in range(n):
            rng = random.Random(f"{seed}/{trial}")
            place = rng.randrange(len(paths))
            kind = rng.choice(sorted(DAMAGES))
            shutil.copytree(paths[place], work)
            what = DAMAGES[kind](rng, work, others[place])
            try:
                counts[kind, _outcome(work, expected[paths[place]], what, trial % 5 == 0)] += 1
            except (BadFile, StorageError):
                counts[kind, "told"] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, damage {trial} ({kind})")
                raise
            shutil.rmtree(work)
    return counts


def _outcome(work, expected, what, writing):
    found = rows_of(work)
    assert found == expected or what == "values", "verify passed, but the rows are others"
    use(work, writing)
    return "harmless" if found == expected else "true to itself"


if __name__ == "__main__":
    amount, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for (kind, outcome), count in sorted(run(first, amount).items()):
        print(f"{kind:10s} {outcome:15s} {count:8d}")
