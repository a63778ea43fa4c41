"""Counts of values from a footer: as pyarrow's if the file is whole, an error if it is not."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import open_vectors
from sghash.data.readers.parquet_footer import value_counts
from sghash.errors import SghashError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def _table(n):
    vectors = np.random.default_rng(n).random((n, 3), dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "v": pa.array(list(vectors), pa.list_(pa.float32())),
            "s": pa.array([{"a": i, "b": [i] * (i % 3)} for i in range(n)]),
            "flag": pa.array([i % 2 == 0 for i in range(n)]),
            "name": pa.array([None if i % 5 == 0 else f"row {i}" for i in range(n)]),
        }
    )


@pytest.mark.parametrize(("n", "group"), [(1, 10), (40, 10), (400, 3)])
def test_counts_are_those_of_pyarrow(tmp_path, n, group):
    path = tmp_path / "a.parquet"
    pq.write_table(_table(n), path, row_group_size=group, write_page_index=n > 1)
    known = pq.ParquetFile(path).metadata
    expected = [
        [known.row_group(g).column(c).num_values for c in range(known.num_columns)]
        for g in range(known.num_row_groups)
    ]
    assert value_counts(path) == expected


def test_no_changed_byte_of_a_footer_ends_the_process(tmp_path):
    """pyarrow's own counts of columns did: its exception passed through Python."""
    path = tmp_path / "a.parquet"
    pq.write_table(_table(4), path)
    good = path.read_bytes()
    size = int.from_bytes(good[-8:-4], "little")
    outcomes = set()
    for place in range(len(good) - 8 - size, len(good) - 8):
        for bits in (1, 16, 255):
            damaged = bytearray(good)
            damaged[place] ^= bits
            path.write_bytes(damaged)
            try:
                source = open_vectors(path, key="v")
                if source.shape[0] < 100:
                    source.read(0, source.shape[0])
                outcomes.add("read")
            except SghashError:
                outcomes.add("refused")
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("length", [0, 1, 7, 8, 11, 12, 40])
def test_a_short_file_is_refused(tmp_path, length):
    path = tmp_path / "a.parquet"
    pq.write_table(_table(4), path)
    path.write_bytes(path.read_bytes()[-length:] if length else b"")
    with pytest.raises(ValueError, match="footer"):
        value_counts(path)


@pytest.mark.parametrize(
    ("footer", "said"),
    [
        (b"\x19\xfc" + b"\xff" * 12, "more than 64 bits"),
        (b"\x49\xf5\xff\xff\x7f\x02", "expected structures"),
        (b"\x19\xfc\xff\xff\xff\x0f\x00", "values in"),
        (b"\x1c" * 5000, "nested too deeply"),
        (b"\x1e\x00", "which there is not"),
        (b"\x1c\x15", "ends early"),
    ],
)
def test_lies_are_told_as_such(tmp_path, footer, said):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match=said):
        value_counts(path)
