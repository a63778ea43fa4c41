"""Damaged index files, their checksums made right again: refused in a sentence, or consistent.

    python tests/stress/fuzz_index.py [seed] [number of files]

Files of both formats and of every kind. One that is not refused must answer exactly as a slow twin
does over the codes and ids that the loaded index then says it holds.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sghash.bits import pack_bits
from sghash.errors import InvalidInput, SghashError
from sghash.index import HammingIndex, MultiIndex, PartitionedIndex, TableIndex
from sghash.index.file import verify_index
from sghash.kernels import reference
from sghash.tables import QueryTables

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "index"))
import damage_index_v1
import damage_index_v2
from damage_index_v1 import Old
from version_1 import write_version_1
from version_2 import Parts


class Base(NamedTuple):
    """A whole file: what it is called in counts, its class, its bytes, how it is taken apart."""

    name: str
    kind: type
    whole: bytes

    @property
    def format(self):
        """How to take it apart, and what may be changed."""
        if self.name == "hamming 1":
            return Old, damage_index_v1.CHANGES
        return Parts, damage_index_v2.CHANGES


def bases(folder: Path, rng: np.random.Generator) -> list[Base]:
    """Whole files: with ids and without, with padding and without, with rows and without."""
    files, path = [], folder / "base"

    def keep(name, index, n, explicit, write):
        ids = np.sort(rng.permutation(500)[:n]) if explicit else None
        codes = pack_bits(rng.random((n, 8 * index.n_bytes)) < 0.5)
        spare = 8 * index.n_bytes - (index.n_bits or 8 * index.n_bytes)
        codes[:, -1] &= np.uint8(256 - (1 << spare) & 255)
        index.add(codes, ids=ids)
        write(index)
        files.append(Base(name, type(index), path.read_bytes()))

    def keep_lists(n_bits, n, explicit, *, vectors, **options):
        index = PartitionedIndex(-(-n_bits // 8), n_bits=n_bits, **options)
        codes = pack_bits(rng.random((n, n_bits)) < 0.5)
        ids = np.sort(rng.permutation(500)[:n]) if explicit else None
        if n:
            places = rng.standard_normal((n, 3)).astype(np.float32) if vectors else None
            index.add(codes, ids=ids, vectors=places)
        index.save(path)
        files.append(Base("partitioned 2", PartitionedIndex, path.read_bytes()))

    half = rng.integers(-1, 2, (9, 9)).astype(float)
    keep_lists(9, 90, True, vectors=True, n_lists=7)
    keep_lists(9, 90, False, vectors=True, n_lists=3, gram=half + half.T)
    keep_lists(16, 120, False, vectors=False, spill=0.3)
    keep_lists(8, 0, False, vectors=False)
    for n_bits, n, explicit in [(9, 30, True), (16, 40, False), (77, 25, True), (8, 0, False)]:
        keep("hamming 1", HammingIndex(n_bits), n, explicit, lambda i: write_version_1(path, i))
        keep("hamming 2", HammingIndex(n_bits), n, explicit, lambda i: i.save(path))
        for n_parts in (None, 3):
            multi = MultiIndex(n_bits, n_parts=n_parts)
            keep("multi 2", multi, n, explicit, lambda i: i.save(path))
        half = rng.integers(-1, 2, (n_bits, n_bits)).astype(float)
        n_bytes = -(-n_bits // 8)
        for options in ({}, {"n_bits": n_bits}, {"n_bits": n_bits, "gram": half + half.T}):
            keep("tables 2", TableIndex(n_bytes, **options), n, explicit, lambda i: i.save(path))
    return files


def damaged(base: Base, rng: np.random.Generator) -> bytes:
    """One or two changes to the structure, or to bytes of any place, or to the length."""
    kind = rng.random()
    if kind < 0.7:
        take_apart, changes = base.format
        parts = take_apart(base.whole)
        shares = np.asarray(list(changes.values())) / sum(changes.values())
        for change in rng.choice(np.asarray(list(changes)), size=rng.integers(1, 3), p=shares):
            try:
                change(parts, rng)
            except (
                TypeError,
                ValueError,
                LookupError,
                OverflowError,
                AttributeError,
                StopIteration,
            ):
                # A field is not what it was any more: the change before will do.
                break
        return parts.joined()
    raw = bytearray(base.whole)
    if kind < 0.85:
        for place in rng.integers(len(raw), size=rng.integers(1, 4)):
            raw[place] = rng.integers(256)
    elif kind < 0.9:
        start = int(rng.integers(len(raw)))
        raw[start : start + int(rng.integers(1, 200))] = bytes(int(rng.integers(1, 200)))
    else:
        raw = raw[: rng.integers(len(raw) + 1)] + bytes(int(rng.integers(0, 70)))
    return bytes(raw)


def check_consistent(index, rng: np.random.Generator, mapped: bool) -> None:
    """Every answer must be what a slow twin makes of the codes and ids that the index gives."""
    codes, ids = np.asarray(index.codes), index.ids
    assert codes.shape == (len(index), index.n_bytes) and ids.shape == (len(index),)
    assert np.all(ids >= 0) and np.all(ids[1:] > ids[:-1])
    if isinstance(index, PartitionedIndex):
        check_lists(index, codes, ids, rng)
    of_codes = isinstance(index, (HammingIndex, MultiIndex))
    check = check_hamming if of_codes else check_tables
    check(index, codes, ids, rng)
    if not mapped:
        spare = 8 * index.n_bytes - (index.n_bits or 8 * index.n_bytes)
        assert not np.any(codes[:, -1] & ((1 << spare) - 1))
    if len(ids):
        np.testing.assert_array_equal(index.codes_of(ids[::-1]), codes[::-1])
    with contextlib.suppress(InvalidInput):  # no numbers are left
        options = {}
        if (
            isinstance(index, PartitionedIndex)
            and index.partitions
            and not index.partitions.by_code
        ):
            options["vectors"] = np.zeros((1, index.partitions.width), dtype=np.float32)
        (new,) = index.add(np.zeros(index.n_bytes, dtype=np.uint8), **options).tolist()
        assert new > ids.max(initial=-1)


def check_hamming(index, codes, ids, rng) -> None:
    n_bits = index.n_bits
    queries = pack_bits(rng.random((int(rng.choice([2, 9])), n_bits)) < 0.5)
    expected = reference.hamming_neighbors(codes, queries, 5, n_bits=n_bits)
    way = {"way": "tables"} if isinstance(index, MultiIndex) else {}
    found = index.search(queries, 5, threads=1, **way)
    right = expected.ids if not len(ids) else np.where(expected.ids < 0, -1, ids[expected.ids])
    np.testing.assert_array_equal(found.ids, right)
    np.testing.assert_array_equal(found.distances, expected.distances)
    within = reference.hamming_range(codes, queries, n_bits // 2, n_bits=n_bits)
    near = index.range_search(queries, n_bits // 2, threads=1, **way)
    np.testing.assert_array_equal(near.limits, within.limits)
    np.testing.assert_array_equal(near.ids, ids[within.ids])


def check_lists(index, codes, ids, rng) -> None:
    """All lists together answer by Hamming as a scan does; some of them answer with their rows."""
    n_bits = index.n_bits or 8 * index.n_bytes
    queries = pack_bits(rng.random((int(rng.choice([1, 9])), n_bits)) < 0.5)
    expected = reference.hamming_neighbors(codes, queries, 5, n_bits=8 * index.n_bytes)
    found = index.search(queries, 5, threads=1)
    right = expected.ids if not len(ids) else np.where(expected.ids < 0, -1, ids[expected.ids])
    np.testing.assert_array_equal(found.ids, right)
    np.testing.assert_array_equal(found.distances, expected.distances)
    if index.partitions is not None:
        vectors = (
            None
            if index.partitions.by_code
            else np.ones((len(queries), index.partitions.width), dtype=np.float32)
        )
        some = index.search(queries, 5, vectors=vectors, probes=2, threads=1).ids
        assert np.isin(some[some >= 0], ids).all()


def check_tables(index, codes, ids, rng) -> None:
    """By bits where there are any, by bytes where there is no gram."""
    n = int(rng.choice([2, 9]))
    offsets = rng.integers(-5, 6, n).astype(np.float32)
    if index.n_bits is not None:
        tables = rng.integers(-3, 4, (n, index.n_bits)).astype(np.float32)
        bits = np.unpackbits(codes, axis=1, count=index.n_bits).astype(np.float64)
        own = np.zeros(len(codes))
        if index.gram is not None:
            own = np.einsum("ij,jk,ik->i", bits, index.gram, bits)
        same_best(index, ids, QueryTables(tables, offsets), tables @ bits.T + own)
    if index.gram is None:
        tables = rng.integers(-3, 4, (n, index.n_bytes, 256)).astype(np.float32)
        scores = tables[:, np.arange(index.n_bytes), codes].sum(axis=2, dtype=np.float64)
        same_best(index, ids, QueryTables(tables, offsets), scores)


def same_best(index, ids, queries, scores, k=5) -> None:
    """The k least by (score, id); where a gram is not of whole numbers, within its rounding."""
    found = index.search(queries, k, threads=1)
    n = min(k, len(ids))
    assert found.distances.dtype == np.float32 and (found.ids[:, n:] == -1).all()
    scores = scores + queries.offsets[:, None]
    whole = index.gram is None or np.array_equal(index.gram, np.rint(index.gram))
    if whole and np.abs(scores).max(initial=0) < 2**20:
        order = np.argsort(scores, axis=1, kind="stable")[:, :n]
        np.testing.assert_array_equal(found.ids[:, :n], ids[order])
        np.testing.assert_array_equal(
            found.distances[:, :n], np.take_along_axis(scores, order, axis=1)
        )
        return
    near = 1e-5 * (np.abs(index.gram).sum() + np.abs(queries.tables).sum())
    places = np.searchsorted(ids, found.ids[:, :n])
    assert all(len(set(row)) == n for row in places.tolist())
    own = np.take_along_axis(scores, places, axis=1)
    assert (np.abs(found.distances[:, :n] - own) <= near).all()
    assert (np.abs(own - np.sort(scores, axis=1)[:, :n]) <= 2 * near).all()


def outcome(base: Base, path: Path, rng: np.random.Generator, mapped: bool) -> str:
    """Load a file and say how it went; anything else than the two good ways is raised."""
    try:
        index = base.kind.load(path, mmap=mapped)
    except SghashError as error:
        sentence = str(error)
        assert "\n" not in sentence and len(sentence) < 300, sentence
        return "refused"
    check_consistent(index, rng, mapped)
    if not mapped:
        verify_index(path)
    return "consistent"


def run(seed: int, n: int) -> dict[tuple[str, str], int]:
    """Damage n files; return how many were refused, and how many answered as they should."""
    rng = np.random.default_rng(seed)
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        path = Path(name) / "index"
        wholes = bases(Path(name), rng)
        for number in range(n):
            base = wholes[rng.integers(len(wholes))]
            raw = damaged(base, rng)
            path.write_bytes(raw)
            for mapped in (False, True):
                try:
                    counts[base.name, outcome(base, path, rng, mapped)] += 1
                except BaseException as error:
                    error.add_note(f"seed {seed}, file {number}, mapped {mapped}: {raw[:400]!r}")
                    raise
    return dict(counts)


if __name__ == "__main__":
    words = (sys.argv[1:] + ["0", "5000"][len(sys.argv) - 1 :])[:2]
    for (kind, how), count in sorted(run(*map(int, words)).items()):
        print(f"{kind:12s} {how:12s} {count:8d}")
