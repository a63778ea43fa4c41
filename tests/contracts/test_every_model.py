"""The contract that every model in `MODELS` keeps: what it declares, its options, its seed.

What it keeps of vectors and files stands in the files beside this one. Models that need an extra
to be fitted have tests of their own.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import sghash
from sghash.errors import InvalidInput
from sghash.models import MODELS, load_model, model_class
from sghash.models.base import BinaryHasher, VectorModel
from sghash.models.capabilities import Capabilities
from tests.contracts.small_models import (
    ALL,
    LENGTHS,
    WIDTH,
    class_of,
    fitted,
    make,
    make_short,
    sample,
)

pytestmark = pytest.mark.usefixtures("quick_quantizer")


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
def test_only_what_is_declared_is_written_as_onnx(name, tmp_path):
    model = fitted(name)
    if not model.capabilities.onnx:
        with pytest.raises(InvalidInput, match=f"{name} cannot be written as ONNX: use SGH"):
            model.to_onnx(tmp_path / "encoder.onnx")
        assert not list(tmp_path.iterdir())
        return
    pytest.importorskip("onnx")
    made = model.to_onnx(tmp_path / "encoder.onnx")
    assert (tmp_path / "encoder.onnx").read_bytes() == made.SerializeToString()


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


@pytest.mark.parametrize("name", ALL)
def test_wrong_options_are_refused_in_a_sentence(name):
    """Or do no harm (what is true or false may be anything): never a traceback, never NaN."""
    vectors = np.random.default_rng(0).random((20, WIDTH)).astype("f4")
    wrong = ("text", -1, 2.5, float("nan"), float("inf"), (1, 2, 3), (1.0, float("nan")))
    untyped = {"callback", "random_state"}
    for option in set(class_of(name)._get_param_names()) - untyped:
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
            for learned in model.stored_names:
                assert np.isfinite(getattr(model, learned)).all(), (option, value)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_codes(name):
    model = clone(fitted(name)).fit(sample())
    assert model.fingerprint_ == fitted(name).fingerprint_
    assert np.array_equal(model.encode(sample(seed=5)), fitted(name).encode(sample(seed=5)))


EVERY = sorted(MODELS)


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_is_an_int_a_generator_or_an_old_random_state(name, tmp_path):
    """An int is the generator that NumPy makes of it; what is given is kept as it is."""
    if (extra := model_class(name)().capabilities.extra) is not None:
        pytest.importorskip(extra)
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
