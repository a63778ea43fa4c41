"""The contract that every hashing model in `MODELS` keeps."""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import sghash
from sghash.errors import BadFile, InvalidInput, NewerFormat, SghashError
from sghash.models import EXTRA_MODELS, MODELS, REFERENCE_MODELS, load_model, model_class
from sghash.models.base import BinaryHasher
from sghash.models.shared.blockwise import BLOCK_ROWS

# Fewer iterations than by default, so that the whole contract takes seconds.
QUICK: dict[str, dict[str, Any]] = {
    "BinaryAutoencoder": {"n_iterations": 4},
    "DeepSGH": {"n_steps": 5, "hidden": (4,)},
    "GeneralSGH": {"n_steps": 150, "n_hidden": 16},
    "GenerativeQuantizer": {"n_bytes": 2, "n_rounds": 1},
    "KMeansHashing": {"n_iterations": 6},
    "SGH": {"n_steps": 300},
    "ScaleInvariantSGH": {"n_steps": 150},
    "SphericalHashing": {"n_iterations": 20},
}
# Models whose codes can be turned back into vectors.
DECODERS = {
    "BinaryAutoencoder", "GeneralSGH", "ITQ", "KMeansHashing", "SGH", "ScaleInvariantSGH",
}  # fmt: skip
WIDTH = 6
NAMES = sorted(MODELS)


def make(name: str, **options: Any) -> BinaryHasher:
    model = model_class(name)
    known = model._get_param_names()
    wanted = {"random_state": 7, **QUICK.get(name, {}), **options}
    return model(**{key: value for key, value in wanted.items() if key in known})


def sample(n: int = 120, width: int = WIDTH, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    return (rng.normal(size=(n, width)) @ mixing * 3 + 10).astype(np.float32)


@cache
def fitted(name: str, n_bits: int = 13) -> BinaryHasher:
    return make(name, n_bits=n_bits).fit(sample())


class Source:
    """Rows that can only be read in ranges, as a file beyond memory would be."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors
        self.shape, self.dtype = vectors.shape, vectors.dtype
        self.largest_read = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.largest_read = max(self.largest_read, stop - start)
        return self._vectors[start:stop]


def quick_models() -> list[BinaryHasher]:
    return [make(name, n_bits=9) for name in NAMES]


@parametrize_with_checks(quick_models())
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", NAMES)
def test_is_exported_and_documented(name):
    model = getattr(sghash, name)
    assert issubclass(model, BinaryHasher)
    for option in model._get_param_names():
        assert option in model.__doc__, f"{name} does not document {option}"


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
def test_wrong_options_are_refused_in_a_sentence(name):
    """Or do no harm (what is true or false may be anything): never a traceback, never NaN."""
    vectors = np.random.default_rng(0).random((20, WIDTH)).astype("f4")
    wrong = ("text", -1, 2.5, float("nan"), float("inf"), (1, 2, 3), (1.0, float("nan")))
    untyped = {"callback", "random_state"}
    for option in set(model_class(name)._get_param_names()) - untyped:
        for value in wrong:
            model = make(name, **{"n_bits": 4, "n_steps": 2, "n_iterations": 1, option: value})
            told = None
            try:
                model.fit(vectors, np.arange(20) % 2)
            except InvalidInput as refusal:
                told = str(refusal)
            if told is not None:
                assert option in told and "\n" not in told
                continue
            for learned in model._learned:
                assert np.isfinite(getattr(model, learned)).all(), (option, value)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_codes(name):
    model = clone(fitted(name)).fit(sample())
    assert model.fingerprint_ == fitted(name).fingerprint_
    assert np.array_equal(model.encode(sample(seed=5)), fitted(name).encode(sample(seed=5)))


EVERY = sorted({**MODELS, **REFERENCE_MODELS, **EXTRA_MODELS})


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_is_an_int_a_generator_or_an_old_random_state(name, tmp_path, monkeypatch):
    """An int is the generator that NumPy makes of it; what is given is kept as it is."""
    if name in EXTRA_MODELS:
        pytest.importorskip("torch")
    monkeypatch.setattr("sghash.models.quantizers.generative.START_STEPS", 50)
    seeds = (5, np.int64(5), np.random.default_rng(5))
    models = [make(name, n_bits=3, random_state=seed).fit(sample()) for seed in seeds]
    assert len({model.fingerprint_ for model in models}) == 1
    assert all(model.random_state is seed for model, seed in zip(models, seeds, strict=True))
    old = [make(name, n_bits=3, random_state=np.random.RandomState(5)) for _ in range(2)]
    assert len({model.fit(sample()).fingerprint_ for model in old}) == 1
    # A file can hold no generator: it is left out.
    models[-1].save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.fingerprint_ == models[-1].fingerprint_ and loaded.random_state is None
    for wrong in ("seven", -1, 1.5, True):
        with pytest.raises(InvalidInput, match="random_state must be"):
            make(name, n_bits=3, random_state=wrong).fit(sample())


@pytest.mark.parametrize("name", sorted({*EVERY} - {"SGH", "DeepSGH"}))
def test_the_code_length_alone_may_be_given_without_its_name(name):
    first, *rest = inspect.signature(model_class(name)).parameters.values()
    assert getattr(model_class(name)(5), first.name) == 5
    assert first.name in ("n_bits", "n_parts", "n_bytes", "n_components")
    assert {option.kind for option in rest} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", ["ITQ", "KMeansHashing", "LSH", "ProductQuantizer", "SGH"])
def test_a_generator_goes_on_where_it_stood(name):
    """Two models of one generator differ, as two draws of it do."""
    generator = np.random.default_rng(5)
    first, second = (make(name, n_bits=9, random_state=generator).fit(sample()) for _ in range(2))
    assert first.fingerprint_ != second.fingerprint_


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_get_nearer_codes_than_strangers(name):
    """What hashing is for: a small change of a vector changes fewer bits than another vector."""
    model, vectors = fitted(name, 64), sample(seed=6)
    nudged = vectors + np.random.default_rng(0).normal(size=vectors.shape) * 0.05
    bits = model.transform(vectors)
    near = np.mean(bits != model.transform(nudged.astype(np.float32)))
    far = np.mean(bits != np.roll(bits, 1, axis=0))
    assert near < 0.5 * far


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(name, n):
    model = make(name, n_bits=13).fit(sample(n))
    assert model.encode(sample(n)).shape == (n, 2)


@pytest.mark.parametrize("name", NAMES)
def test_constant_columns_and_constant_data(name):
    vectors = sample()
    vectors[:, [1, 4]] = 5.0
    codes = make(name, n_bits=13).fit(vectors).encode(vectors)
    assert len(np.unique(codes, axis=0)) > 4
    same = np.full((30, WIDTH), 2.5, dtype=np.float32)
    assert len(np.unique(make(name, n_bits=13).fit(same).encode(same), axis=0)) == 1


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


@pytest.mark.parametrize("name", NAMES)
def test_one_column(name):
    vectors = sample(width=1)
    assert make(name, n_bits=5).fit(vectors).encode(vectors).shape == (120, 1)


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
def test_learns_the_same_from_a_memory_map_or_a_source(name, tmp_path):
    vectors = sample()
    on_disk = np.memmap(tmp_path / "vectors", dtype=np.float32, mode="w+", shape=vectors.shape)
    on_disk[:] = vectors
    expected = fitted(name).fingerprint_
    assert clone(fitted(name)).fit(on_disk).fingerprint_ == expected
    assert clone(fitted(name)).fit(Source(vectors)).fingerprint_ == expected


@pytest.mark.parametrize("name", NAMES)
def test_blocks_do_not_change_codes(name):
    """More rows than one block holds, read block by block."""
    model = fitted(name)
    source = Source(np.tile(sample(seed=9), (2 * BLOCK_ROWS // 60, 1)))
    codes = model.encode(source)
    assert source.largest_read < len(codes)
    assert np.mean(codes[:120] != model.encode(sample(seed=9))) < 0.01
    assert np.array_equal(codes[:120], codes[-120:])


@pytest.mark.parametrize("name", NAMES)
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
    for n_bits in (0, -3, 1.5, True, "64"):
        with pytest.raises(InvalidInput, match="n_bits"):
            make(name, n_bits=n_bits).fit(sample())


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_is_refused(name, tmp_path):
    for verb in ("encode", "transform"):
        with pytest.raises(NotFittedError):
            getattr(make(name), verb)(sample())
    with pytest.raises(NotFittedError):
        make(name).decode(np.zeros((1, 8), dtype=np.uint8))
    with pytest.raises(NotFittedError):
        make(name).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", NAMES)
def test_decoder(name):
    model, vectors = fitted(name, 64), sample()
    if name not in DECODERS:
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


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    assert again.fingerprint_ == model.fingerprint_
    assert np.array_equal(again.encode(sample(seed=5)), model.encode(sample(seed=5)))
    assert again.get_params()["n_bits"] == 13
    if name in DECODERS:
        codes = model.encode(sample(seed=5))
        assert np.array_equal(again.decode(codes), model.decode(codes))
    with pytest.raises(InvalidInput, match="exists already"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)
    other = next(other for other in NAMES if other != name)
    with pytest.raises(InvalidInput, match="load_model"):
        model_class(other).load(tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused(name, tmp_path):
    folder = tmp_path / "model"
    fitted(name).save(folder)
    tensors, config = folder / "model.safetensors", folder / "config.json"
    good_tensors, good_config = tensors.read_bytes(), config.read_text()

    def refused(expected: type[SghashError] = BadFile) -> None:
        with pytest.raises(expected):
            load_model(folder)
        tensors.write_bytes(good_tensors)
        config.write_text(good_config)
        load_model(folder)

    for cut in (0, 5, len(good_tensors) // 2, len(good_tensors) - 1):
        tensors.write_bytes(good_tensors[:cut])
        refused()
    changed = bytearray(good_tensors)
    changed[-3] ^= 0x10
    tensors.write_bytes(bytes(changed))
    refused()
    tensors.unlink()
    refused()
    config.write_text(good_config[: len(good_config) // 2])
    refused()
    for key, value, error in (
        ("model", "NoSuchModel", BadFile),
        ("format", "something", BadFile),
        ("format_version", 999, NewerFormat),
        ("options", {"no_such_option": 1}, BadFile),
        ("fingerprint", "0" * 64, BadFile),
        ("tensors", {}, BadFile),
    ):
        config.write_text(json.dumps({**json.loads(good_config), key: value}))
        refused(error)


@pytest.mark.parametrize("name", [name for name in NAMES if "callback" in make(name).get_params()])
def test_progress_counts_to_its_total(name):
    seen: list[Any] = []
    make(name, n_bits=9, callback=seen.append).fit(sample())
    assert seen
    assert all(0 <= progress.step <= progress.total for progress in seen)
    steps = [progress.step for progress in seen]
    assert steps == sorted(steps)
