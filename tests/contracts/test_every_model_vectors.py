"""What every model makes of vectors: any length, any kind of array, hard data, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sghash.errors import InvalidInput
from sghash.models.shared.blockwise import BLOCK_ROWS
from tests.contracts.small_models import (
    ALL,
    NAMES,
    WIDTH,
    Source,
    fitted,
    make,
    make_short,
    sample,
)

pytestmark = pytest.mark.usefixtures("quick_quantizer")


@pytest.mark.parametrize("n_bits", [1, 8, 13, 64])
@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_bits(name, n_bits):
    """From one bit to ten times the width of the vectors; encode and transform agree."""
    model = fitted(name, n_bits)
    vectors = sample(seed=4)
    codes, bits = model.encode(vectors), model.transform(vectors)
    assert codes.dtype == np.uint8 and codes.shape == (120, (n_bits + 7) // 8)
    assert bits.dtype == np.bool_ and bits.shape == (120, n_bits)
    assert np.array_equal(codes, np.packbits(bits, axis=1))
    # Codes that do not tell vectors apart would satisfy all of the above.
    assert len(np.unique(codes, axis=0)) >= min(2**n_bits, 8) // 2 + 1


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_get_nearer_codes_than_strangers(name):
    """What hashing is for: a small change of a vector changes fewer bits than another vector."""
    model, vectors = fitted(name, 64), sample(seed=6)
    nudged = vectors + np.random.default_rng(0).normal(size=vectors.shape) * 0.05
    bits = model.transform(vectors)
    near = np.mean(bits != model.transform(nudged.astype(np.float32)))
    far = np.mean(bits != np.roll(bits, 1, axis=0))
    assert near < 0.5 * far


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(name, n):
    model = make_short(name).fit(sample(n))
    assert model.encode(sample(n)).shape == (n, model.code_columns)


@pytest.mark.parametrize("name", ALL)
def test_constant_columns_and_constant_data(name):
    vectors = sample()
    vectors[:, [1, 4]] = 5.0
    codes = make_short(name).fit(vectors).encode(vectors)
    assert len(np.unique(codes, axis=0)) > 4
    same = np.full((30, WIDTH), 2.5, dtype=np.float32)
    assert len(np.unique(make_short(name).fit(same).encode(same), axis=0)) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_does_not_blind_a_model(name, scale):
    vectors = sample() * np.float32(scale)
    codes = make(name, n_bits=13).fit(vectors).encode(vectors)
    usual = fitted(name).encode(sample())
    assert len(np.unique(codes, axis=0)) > 0.5 * len(np.unique(usual, axis=0))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_whose_squares_overflow_are_refused_or_hashed(name):
    vectors = sample() * np.float32(1e25)
    refusal = ""
    try:
        codes = make(name, n_bits=13).fit(vectors).encode(vectors)
    except InvalidInput as error:
        refusal = str(error)
    assert "rescale" in refusal or len(np.unique(codes, axis=0)) > 4


@pytest.mark.parametrize("name", ALL)
def test_one_column(name):
    vectors = sample(width=1)
    model = make_short(name).fit(vectors)
    assert model.encode(vectors).shape == (120, model.code_columns)


@pytest.mark.parametrize("name", ALL)
def test_every_kind_of_array_gives_the_same_codes(name, tmp_path):
    model = fitted(name)
    whole = np.round(sample(seed=8)).astype(np.int16)
    expected = model.encode(whole.astype(np.float32))
    doubled = np.repeat(whole, 2, axis=0)
    on_disk = np.memmap(tmp_path / "vectors", dtype=np.int16, mode="w+", shape=whole.shape)
    on_disk[:] = whole
    for given in (
        whole,
        whole.astype(np.float16),
        whole.astype(np.float64),
        np.asfortranarray(whole.astype(np.float32)),
        doubled[::2],
        whole.tolist(),
        on_disk,
        Source(whole),
    ):
        assert np.array_equal(model.encode(given), expected)


@pytest.mark.parametrize("name", ALL)
def test_learns_the_same_from_a_memory_map_or_a_source(name, tmp_path):
    vectors = sample()
    on_disk = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=vectors.shape)
    on_disk[:] = vectors
    expected = fitted(name).fingerprint_
    assert clone(fitted(name)).fit(on_disk).fingerprint_ == expected
    assert clone(fitted(name)).fit(Source(vectors)).fingerprint_ == expected


@pytest.mark.parametrize("name", ALL)
def test_blocks_do_not_change_codes(name):
    """More rows than one block holds, read block by block."""
    model = fitted(name)
    source = Source(np.tile(sample(seed=9), (2 * BLOCK_ROWS // 60, 1)))
    codes = model.encode(source)
    assert source.largest_read < len(codes)
    assert np.mean(codes[:120] != model.encode(sample(seed=9))) < 0.01
    assert np.array_equal(codes[:120], codes[-120:])


@pytest.mark.parametrize("name", ALL)
def test_wrong_input_is_refused(name, tmp_path):
    model = fitted(name)
    with pytest.raises(ValueError, match=f"{WIDTH} features"):
        model.encode(sample(width=WIDTH + 1))
    with pytest.raises(InvalidInput, match="columns"):
        model.encode(Source(sample(width=WIDTH + 1)))
    for bad in (np.nan, np.inf):
        vectors = sample()
        vectors[3, 2] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.encode(vectors)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.encode(Source(vectors))
        with pytest.raises(ValueError, match=r"NaN|infinity") as refused:
            clone(model).fit(vectors)
        # One sentence: what scikit-learn says about classifiers is of no use here.
        assert len(str(refused.value)) < 150 and "http" not in str(refused.value)
    with pytest.raises(TypeError, match="toarray"):
        model.encode(sparse.csr_array(sample()))
    with pytest.raises(TypeError, match="toarray"):
        clone(model).fit(sparse.csr_array(sample()))
    option = model.capabilities.length.option
    for length in (0, -3, 1.5, True, "64"):
        with pytest.raises(InvalidInput, match=option):
            make(name, **{option: length}).fit(sample())


@pytest.mark.parametrize("name", NAMES)
def test_decoder(name):
    model, vectors = fitted(name, 64), sample()
    if not model.capabilities.decodes:
        with pytest.raises(InvalidInput, match="no decoder"):
            model.decode(model.encode(vectors))
        return
    decoded = model.decode(model.encode(vectors))
    assert decoded.shape == vectors.shape and decoded.dtype == np.float32
    assert np.array_equal(decoded, model.inverse_transform(model.transform(vectors)))
    spread = np.square(vectors - vectors.mean(axis=0)).sum()
    assert np.square(decoded - vectors).sum() < 0.5 * spread
    with pytest.raises(InvalidInput, match="bytes wide"):
        model.decode(np.zeros((2, 9), dtype=np.uint8))
