"""Writers: what is written is what is read back, nothing is lost unasked, files appear whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from sghash.data import content_hash, convert, open_vectors
from sghash.data.conversion import WRITERS
from sghash.errors import InvalidDtype, InvalidInput

TYPES = {ending: np.dtype(fixed or "<f4") for ending, (_, fixed) in WRITERS.items()}
every_writer = pytest.mark.parametrize("ending", sorted(WRITERS))


@every_writer
def test_written_vectors_come_back(
    tmp_path: Path, ending: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sghash.data.sources.BLOCK_BYTES", 1000)  # many blocks
    array = rng.integers(0, 100, (333, 9)).astype(TYPES[ending])
    seen: list[tuple[int, int]] = []
    written = convert(array, tmp_path / f"v{ending}", callback=lambda *step: seen.append(step))
    assert np.array_equal(np.asarray(written), array) and written.dtype == array.dtype
    assert seen[-1] == (333, 333) and len(seen) > 2
    assert [path.name for path in tmp_path.iterdir()] == [f"v{ending}"]


@every_writer
def test_every_format_converts_to_npy_and_keeps_its_hash(tmp_path: Path, ending: str) -> None:
    array = np.arange(60).reshape(12, 5).astype(TYPES[ending])
    first = convert(array, tmp_path / f"v{ending}")
    second = convert(tmp_path / f"v{ending}", tmp_path / "w.npy")
    assert content_hash(first) == content_hash(second) == content_hash(array)


@settings(max_examples=40)
@given(
    array=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=20),
        elements=st.floats(width=32, allow_nan=False),
    ),
    ending=st.sampled_from([".npy", ".npz", ".fvecs", ".fbin", ".parquet"]),
)
def test_any_float_table_survives(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, ending: str
) -> None:
    path = tmp_path_factory.mktemp("v") / f"v{ending}"
    assert np.array_equal(np.asarray(convert(array, path)), array)


def test_rows_and_keys_are_chosen(tmp_path: Path) -> None:
    tables = {"base": np.arange(20.0).reshape(10, 2), "query": np.ones((3, 2))}
    np.savez(tmp_path / "two.npz", **tables)
    chosen = convert(tmp_path / "two.npz", tmp_path / "q.npy", key="query")
    assert np.array_equal(np.asarray(chosen), tables["query"])
    some = convert(open_vectors(tmp_path / "two.npz"), tmp_path / "b.npy", start=2, stop=5)
    assert np.array_equal(np.asarray(some), tables["base"][2:5])
    with pytest.raises(InvalidInput, match="have none"):
        convert(np.ones((2, 2)), tmp_path / "c.npy", key="base")


def test_numbers_are_not_lost_unasked(tmp_path: Path) -> None:
    doubles = np.array([[0.1, 2.0]])
    with pytest.raises(InvalidDtype, match="ask for it with dtype='float32'"):
        convert(doubles, tmp_path / "v.fvecs")
    asked = convert(doubles, tmp_path / "v.fvecs", dtype=np.float32)
    assert np.array_equal(np.asarray(asked), doubles.astype(np.float32))
    # Widening loses nothing and needs no asking.
    assert convert(np.ones((2, 3), np.uint8), tmp_path / "w.fvecs").dtype == np.float32


@pytest.mark.parametrize(
    ("value", "dtype", "ending"),
    [
        (300, "uint8", ".bvecs"),
        (-1, "uint8", ".u8bin"),
        (0.5, "int32", ".ivecs"),
        (np.nan, "int8", ".i8bin"),
        (1e6, "float16", ".f16bin"),
        (1e300, "float32", ".fbin"),
    ],
)
def test_a_number_that_does_not_fit_is_named(
    tmp_path: Path, value: float, dtype: str, ending: str
) -> None:
    array = np.ones((4, 3))
    array[2, 1] = value
    with pytest.raises(InvalidInput, match="row 2, column 1"):
        convert(array, tmp_path / f"v{ending}", dtype=dtype)
    assert not list(tmp_path.iterdir())


def test_existing_files_and_unknown_endings(tmp_path: Path) -> None:
    array = np.ones((2, 2), np.float32)
    convert(array, tmp_path / "v.npy")
    with pytest.raises(InvalidInput, match="exists already"):
        convert(array, tmp_path / "v.npy")
    convert(2 * array, tmp_path / "v.npy", overwrite=True)
    assert np.load(tmp_path / "v.npy")[0, 0] == 2
    with pytest.raises(InvalidInput, match="ending we can write"):
        convert(array, tmp_path / "v.csv")
    with pytest.raises(InvalidInput, match="nothing to write"):
        convert(array[:0], tmp_path / "w.npy")
    with pytest.raises(InvalidDtype, match="hold float32"):
        convert(array, tmp_path / "v.fbin", dtype=np.uint8)


def test_our_files_are_read_by_other_programs(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    convert(array, tmp_path / "v.npy")
    assert np.array_equal(np.load(tmp_path / "v.npy"), array)
    convert(array, tmp_path / "v.npz")
    assert np.array_equal(np.load(tmp_path / "v.npz")["vectors"], array)
    parquet = pytest.importorskip("pyarrow.parquet")
    convert(array, tmp_path / "v.parquet")
    column = parquet.read_table(tmp_path / "v.parquet").column("vectors")
    assert column.to_pylist() == array.tolist()
    raw = (
        np.fromfile(tmp_path / "v.fvecs", np.float32) if convert(array, tmp_path / "v.fvecs") else 0
    )
    assert np.array_equal(raw.reshape(4, 4)[:, 1:], array)
    assert raw.reshape(4, 4)[:, 0].view(np.int32).tolist() == [3] * 4
