"""What `SGH` takes: number types, frames, sources, shapes at the border; and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from sghash.errors import InvalidInput
from sghash.models.sgh import SGH
from sghash.models.sgh.training.start import STARTS


def quick(**options: Any) -> SGH:
    return SGH().set_params(**{"n_bits": 12, "n_steps": 120, "random_state": 0, **options})


class Source:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i1", "u2", "i4", "i8", "?"])
def test_number_types(dtype: str, clusters: np.ndarray) -> None:
    vectors = np.clip(clusters * 4, 0, 120).astype(dtype)
    model = quick().fit(vectors)
    reference = quick().fit(vectors.astype(np.float32))
    assert model.fingerprint_ == reference.fingerprint_
    codes = model.encode(vectors)
    np.testing.assert_array_equal(codes, model.encode(vectors.astype(np.float32)))


def test_frames_and_strides(clusters: np.ndarray, tmp_path: Path) -> None:
    expected = quick().fit(clusters)
    codes = expected.encode(clusters)
    names = [f"c{j}" for j in range(20)]
    wide = np.zeros((3000, 40), dtype=np.float32)
    wide[:, ::2] = clusters
    np.save(tmp_path / "x.npy", clusters)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    forms = {
        "pandas": pd.DataFrame(clusters, columns=names),
        "polars": pl.DataFrame(clusters, schema=names),
        "strided": wide[:, ::2],
        "fortran": np.asfortranarray(clusters),
        "list": clusters.tolist(),
    }
    for name, form in forms.items():
        model = quick().fit(form)
        assert model.fingerprint_ == expected.fingerprint_, name
        np.testing.assert_array_equal(model.encode(form), codes, err_msg=name)
    assert list(quick().fit(forms["polars"]).feature_names_in_) == names
    from_map = quick().fit(mapped)
    np.testing.assert_array_equal(expected.encode(mapped), codes)
    assert from_map.reconstruction_error(clusters) < 1.3 * expected.reconstruction_error(clusters)


def test_sources_beyond_memory(clusters: np.ndarray) -> None:
    source = Source(clusters)
    model = quick().fit(source)
    np.testing.assert_array_equal(model.encode(source), model.encode(clusters))
    np.testing.assert_array_equal(model.encode(source, sweeps=2), model.encode(clusters, sweeps=2))
    assert model.reconstruction_error(clusters) < 1.3 * quick().fit(clusters).reconstruction_error(
        clusters
    )
    with pytest.raises(InvalidInput, match="the vectors have 19 columns"):
        model.encode(Source(clusters[:, :19]))


@pytest.mark.parametrize(("n", "width", "n_bits"), [(1, 5, 8), (3, 5, 8), (40, 1, 9), (60, 3, 40)])
@pytest.mark.parametrize("init", STARTS)
def test_shapes_at_the_border(
    n: int, width: int, n_bits: int, init: str, rng: np.random.Generator
) -> None:
    vectors = rng.standard_normal((n, width)).astype(np.float32)
    model = quick(n_bits=n_bits, recipe__init=init).fit(vectors)
    assert model.encode(vectors).shape == (n, (n_bits + 7) // 8)
    assert np.isfinite(model.description_length(vectors).total).all()
    assert np.isfinite(model.decode(model.encode(vectors))).all()


@pytest.mark.parametrize("init", STARTS)
@pytest.mark.parametrize("value", [0.0, 7.0, 1e8])
def test_constant_columns_and_constant_data(init: str, value: float, clusters: np.ndarray) -> None:
    constant = np.full((50, 4), value, dtype=np.float32)
    assert np.isfinite(
        quick(recipe__init=init).fit(constant).decode(np.zeros((1, 2), np.uint8))
    ).all()
    vectors = clusters.copy()
    vectors[:, 3] = value
    model = quick(recipe__init=init).fit(vectors)
    np.testing.assert_array_equal(model.encoder_weights_[3], 0)
    bits = model.transform(vectors).mean(axis=0)
    assert ((bits > 0.01) & (bits < 0.99)).sum() >= 6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad: float, clusters: np.ndarray) -> None:
    spoilt = clusters.copy()
    spoilt[1234, 5] = bad
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        quick().fit(spoilt)
    with pytest.raises(ValueError, match="row 1234 of the vectors contains NaN"):
        quick().fit(Source(spoilt))
    model = quick().fit(clusters)
    for sweeps in (0, 2):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(spoilt, sweeps=sweeps)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(spoilt[1230:1240], sweeps=sweeps)
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.encode(Source(spoilt), sweeps=sweeps)


def test_values_beyond_float32_are_refused(clusters: np.ndarray) -> None:
    huge = clusters.astype(np.float64)
    huge[7, 7] = 1e300
    with pytest.raises(ValueError, match="infinity or a value too large"):
        quick().fit(huge)
    with pytest.raises(ValueError, match="infinity or a value too large"):
        quick().fit(clusters).encode(huge)
    large, model = clusters.copy(), quick().fit(clusters)
    longest = np.abs(model.encoder_weights_).sum(axis=0).argmax()
    assert np.abs(model.encoder_weights_[:, longest]).sum() > 1.2
    large[7] = 3e38 * np.sign(model.encoder_weights_[:, longest])
    for rows in (large, large[:10]):
        with pytest.raises(InvalidInput, match="projection is infinite in float32"):
            model.encode(rows)


def test_other_wrong_input_is_refused(clusters: np.ndarray) -> None:
    model = quick().fit(clusters)
    with pytest.raises(ValueError, match="X has 19 features, but SGH is expecting 20 features"):
        model.encode(clusters[:, :19])
    with pytest.raises(TypeError, match="dense data is required"):
        quick().fit(sparse.csr_matrix(clusters))
    with pytest.raises(ValueError, match="Complex data not supported"):
        quick().fit(clusters.astype(np.complex64))
    with pytest.raises(ValueError, match="is not fitted yet"):
        SGH().encode(clusters)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        quick().fit(clusters[:0])
