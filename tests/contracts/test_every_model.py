"""The contract that every model in `MODELS` keeps, and what hashing models keep beyond it.

Models that need an extra to be fitted have tests of their own.
"""

from __future__ import annotations

import copy
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
from sghash.models import MODELS, load_model, model_class
from sghash.models.base import BinaryHasher, VectorModel
from sghash.models.capabilities import Capabilities
from sghash.models.quantizers import generative
from sghash.models.shared.blockwise import BLOCK_ROWS

# Fewer iterations than by default, so that the whole contract takes seconds.
QUICK: dict[str, dict[str, Any]] = {
    "BinaryAutoencoder": {"n_iterations": 4},
    "DeepSGH": {"n_steps": 5, "hidden": (4,)},
    "GeneralSGH": {"n_steps": 150, "n_hidden": 16},
    "GenerativeQuantizer": {"n_bytes": 2, "n_rounds": 1},
    "KMeansHashing": {"n_iterations": 6},
    "ProductQuantizer": {"n_iterations": 4},
    "SGH": {"n_steps": 300},
    "ScaleInvariantSGH": {"n_steps": 150},
    "SphericalHashing": {"n_iterations": 20},
}
WIDTH = 6
ALL = [name for name in sorted(MODELS) if model_class(name)().capabilities.extra is None]
#: Models whose codes are compared by Hamming distance.
NAMES = [name for name in ALL if model_class(name)().capabilities.codes == "bits"]
#: Bits of the codes that are made here, by what the codes are.
LENGTHS = {"bits": 13, "bytes": 16, "numbers": 96}


@pytest.fixture(scope="module", autouse=True)
def quick_quantizer():
    """Fewer steps to start from, and blocks as small as those of the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generative, "START_STEPS", 100)
        patch.setattr(generative, "BLOCK_ROWS", BLOCK_ROWS // 8)
        yield


def make(name: str, **options: Any) -> VectorModel:
    model = model_class(name)
    known = model._get_param_names()
    wanted = {"random_state": 7, **QUICK.get(name, {}), **options}
    return model(**{key: value for key, value in wanted.items() if key in known})


def make_short(name: str, **options: Any) -> VectorModel:
    """A model of a few bits, however its option is called."""
    can = model_class(name)().capabilities
    return make(name, **{**can.length.options(LENGTHS[can.codes], model=name), **options})


def sample(n: int = 120, width: int = WIDTH, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    return (rng.normal(size=(n, width)) @ mixing * 3 + 10).astype(np.float32)


@cache
def fitted(name: str, n_bits: int | None = None) -> VectorModel:
    model = make_short(name) if n_bits is None else make(name, n_bits=n_bits)
    return model.fit(sample())


class Source:
    """Rows that can only be read in ranges, as a file beyond memory would be."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors
        self.shape, self.dtype = vectors.shape, vectors.dtype
        self.largest_read = 0

    def read(self, start: int, stop: int) -> np.ndarray:
        self.largest_read = max(self.largest_read, stop - start)
        return self._vectors[start:stop]


def quick_models() -> list[VectorModel]:
    return [make_short(name, n_bits=9) for name in ALL]


@parametrize_with_checks(quick_models())
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_is_in_its_room_and_documented(name):
    model = getattr(sghash.models, name)
    is_binary = model().capabilities.codes == "bits"
    assert issubclass(model, BinaryHasher) == is_binary and issubclass(model, VectorModel)
    for option in model._get_param_names():
        assert option in model.__doc__, f"{name} does not document {option}"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_declares_its_capabilities_and_its_length(name):
    cls = model_class(name)
    can = cls().capabilities
    assert "capabilities" in vars(cls), f"{name} leaves it to others to say what it can do"
    assert isinstance(can, Capabilities) and can.codes in LENGTHS
    n_bits = LENGTHS[can.codes]
    model = cls(**can.length.options(n_bits, model=name))
    assert model.code_bits == n_bits
    too_long = (can.length.most + 1) * can.length.bits_per_unit
    with pytest.raises(InvalidInput, match=r"bits"):
        can.length.options(too_long, model=name)
    if can.codes != "bits":
        with pytest.raises(InvalidInput, match=f"{name} is a multiple of"):
            can.length.options(n_bits + 1, model=name)


@pytest.mark.parametrize("name", ALL)
def test_codes_are_what_they_are_declared_to_be(name):
    model = fitted(name)
    kind = np.float32 if model.capabilities.codes == "numbers" else np.uint8
    codes = model.encode(sample(seed=4))
    assert codes.dtype == kind and codes.shape == (120, model.code_columns)
    assert codes.shape[1] * codes.itemsize == -(-model.code_bits // 8)


def is_sum_over_parts(model: VectorModel) -> bool:
    """Whether each bit or byte of a code adds to the decoded vector whatever the others are."""
    codes = model.encode(sample())
    if model.capabilities.codes == "bits":
        codes = np.unpackbits(codes, axis=1)
    one, other = codes[:60], codes[60:]
    is_swapped = np.random.default_rng(0).random(codes.shape[1]) < 0.5
    swapped = np.where(is_swapped, one, other), np.where(is_swapped, other, one)

    def decoded(parts: np.ndarray) -> np.ndarray:
        packed = np.packbits(parts, axis=1) if model.capabilities.codes == "bits" else parts
        return model.decode(packed).astype(np.float64)

    apart = decoded(one) + decoded(other) - decoded(swapped[0]) - decoded(swapped[1])
    return bool(np.abs(apart).max() < 1e-4 * np.abs(decoded(codes)).max())


@pytest.mark.parametrize("name", ALL)
def test_models_with_tables_and_no_others_decode_by_sums(name):
    """What tables rest on: a score is a sum over bits or bytes where the vector is one."""
    model = fitted(name)
    can = model.capabilities
    if can.codes == "numbers" or not can.decodes:
        assert not can.tables
        return
    assert is_sum_over_parts(model) == can.tables


@pytest.mark.parametrize("decoder", ["gaussian", "bernoulli", "two-layer"])
def test_tables_of_other_decoders_depend_on_the_decoder(decoder):
    vectors = (sample() - sample().min()) / np.ptp(sample())
    model = make("GeneralSGH", n_bits=13, decoder=decoder).fit(vectors)
    assert model.capabilities.tables == (decoder == "gaussian")


def test_tables_of_a_network_depend_on_its_layers():
    model = model_class("DeepSGH")(n_bits=8)
    assert model.capabilities.tables
    assert not model_class("DeepSGH")(n_bits=8, decoder=object()).capabilities.tables
    # As `load_model` makes it: the network that was given is forgotten.
    model.n_features_in_, model.encoder_layers_ = 3, [{"kind": "linear", "shape": [3, 8]}]
    model.encoder_numbers_, model.decoder_numbers_ = np.zeros(32), np.zeros(27)
    model.decoder_layers_ = [{"kind": "linear", "shape": [8, 3]}]
    assert model.capabilities.tables
    model.decoder_layers_ = [*model.decoder_layers_, {"kind": "relu"}]
    assert not model.capabilities.tables


@pytest.mark.parametrize("name", ALL)
def test_only_what_is_declared_can_be_sharpened(name):
    model, vectors = fitted(name), sample()
    if not model.capabilities.sharpens:
        with pytest.raises(InvalidInput, match=f"{name} cannot sharpen its codes: leave sweeps"):
            model.encode(vectors, sweeps=2)
        return

    def error(codes: np.ndarray) -> float:
        return float(np.square(vectors - model.decode(codes)).sum())

    assert error(model.encode(vectors, sweeps=2)) < error(model.encode(vectors))


@pytest.mark.parametrize("name", ALL)
def test_sweeps_must_be_a_count(name):
    for wrong in (-1, 1.5, True):
        with pytest.raises(InvalidInput, match="sweeps must be"):
            fitted(name).encode(sample(), sweeps=wrong)


@pytest.mark.parametrize("name", ALL)
def test_only_what_is_declared_goes_on_learning(name):
    if not fitted(name).capabilities.online:
        with pytest.raises(AttributeError, match="partial_fit"):
            clone(fitted(name)).partial_fit(sample())
        return
    model = clone(fitted(name)).partial_fit(sample())
    before = model.fingerprint_
    assert model.partial_fit(sample(seed=4)).fingerprint_ != before


@pytest.mark.parametrize("name", ALL)
def test_only_what_is_declared_learns_from_labels(name):
    """Others pass labels by, as a pipeline expects."""
    labels = np.arange(120) % 2
    if not fitted(name).capabilities.supervised:
        assert clone(fitted(name)).fit(sample(), labels).fingerprint_ == fitted(name).fingerprint_
        return
    learned = clone(fitted(name)).set_params(supervised=True).fit(sample(), labels)
    assert learned.fingerprint_ != fitted(name).fingerprint_


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


@pytest.mark.parametrize("name", ALL)
def test_wrong_options_are_refused_in_a_sentence(name):
    """Or do no harm (what is true or false may be anything): never a traceback, never NaN."""
    vectors = np.random.default_rng(0).random((20, WIDTH)).astype("f4")
    wrong = ("text", -1, 2.5, float("nan"), float("inf"), (1, 2, 3), (1.0, float("nan")))
    untyped = {"callback", "random_state"}
    for option in set(model_class(name)._get_param_names()) - untyped:
        for value in wrong:
            few = {"n_bits": 4, "n_steps": 2, "n_iterations": 1, "n_rotations": 1}
            model = make_short(name, **{**few, option: value})
            told = None
            try:
                model.fit(vectors, np.arange(20) % 2)
            except InvalidInput as refusal:
                told = str(refusal)
            if told is not None:
                assert option in told and "\n" not in told
                continue
            for learned in model.learned_names:
                assert np.isfinite(getattr(model, learned)).all(), (option, value)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_codes(name):
    model = clone(fitted(name)).fit(sample())
    assert model.fingerprint_ == fitted(name).fingerprint_
    assert np.array_equal(model.encode(sample(seed=5)), fitted(name).encode(sample(seed=5)))


EVERY = sorted(MODELS)


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_is_an_int_a_generator_or_an_old_random_state(name, tmp_path, monkeypatch):
    """An int is the generator that NumPy makes of it; what is given is kept as it is."""
    if (extra := model_class(name)().capabilities.extra) is not None:
        pytest.importorskip(extra)
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


@pytest.mark.parametrize("name", EVERY)
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


@pytest.mark.parametrize("name", ALL)
def test_unfitted_is_refused(name, tmp_path):
    for verb in ("encode", "transform"):
        with pytest.raises(NotFittedError):
            getattr(make(name), verb)(sample())
    with pytest.raises(NotFittedError):
        make(name).decode(np.zeros((1, 8)))
    with pytest.raises(NotFittedError):
        make(name).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


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


@pytest.mark.parametrize("name", ALL)
def test_save_and_load(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    assert again.fingerprint_ == model.fingerprint_
    assert np.array_equal(again.encode(sample(seed=5)), model.encode(sample(seed=5)))
    assert again.code_bits == model.code_bits
    if model.capabilities.decodes:
        codes = model.encode(sample(seed=5))
        assert np.array_equal(again.decode(codes), model.decode(codes))
    with pytest.raises(InvalidInput, match="exists already"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)
    other = next(other for other in ALL if other != name)
    with pytest.raises(InvalidInput, match="load_model"):
        model_class(other).load(tmp_path / "model")


@pytest.mark.parametrize("name", ALL)
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


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_model_that_is_given_another_length_must_be_fitted_again(name, loaded, tmp_path):
    model = copy.deepcopy(fitted(name))
    if loaded:
        model.save(tmp_path / "first")
        model = load_model(tmp_path / "first")
    option = model.capabilities.length.option
    codes = model.encode(sample())
    before = getattr(model, option)
    model.set_params(**{option: before + 1})
    for use in (model.encode, model.transform, model.query_tables):
        with pytest.raises(NotFittedError):
            use(sample())
    with pytest.raises(NotFittedError):
        model.decode(codes)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    np.testing.assert_array_equal(model.set_params(**{option: before}).encode(sample()), codes)


@pytest.mark.parametrize("name", ALL)
def test_a_flag_is_true_or_false(name):
    options = make(name).get_params(deep=False)
    for flag in (key for key, value in options.items() if isinstance(value, bool)):
        with pytest.raises(InvalidInput, match=f"{flag} must be True or False, got 'no'"):
            make_short(name, **{flag: "no"}).fit(sample())


@pytest.mark.parametrize("name", [name for name in ALL if "callback" in make(name).get_params()])
def test_a_callback_that_cannot_be_called_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="callback must be a function"):
        make_short(name, callback="print").fit(sample())


@pytest.mark.parametrize("name", [name for name in ALL if "callback" in make(name).get_params()])
def test_progress_counts_to_its_total(name):
    seen: list[Any] = []
    make_short(name, callback=seen.append).fit(sample())
    assert seen
    assert all(0 <= progress.step <= progress.total for progress in seen)
    steps = [progress.step for progress in seen]
    assert steps == sorted(steps)
