"""Encoders in ONNX give the codes of `encode`, run by onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import ITQ, SGH
from sghash.adapters.exports.onnx import ENCODERS, to_onnx
from sghash.errors import InvalidInput, NotFitted
from sghash.models import (
    LSH,
    MODELS as ALL_MODELS,
    PCAHashing,
    SignHashing,
    SpectralHashing,
    model_class,
)

pytestmark = pytest.mark.adapters


def codes_by_onnx(made, vectors):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"vectors": vectors})[0]


MODELS = {
    "SGH": lambda: SGH(64, n_steps=30, random_state=0),
    "SGH, bits that fill no byte": lambda: SGH(20, n_steps=30, random_state=0),
    "SGH with a hidden layer": lambda: SGH(33, hidden=40, n_steps=30, random_state=0),
    "SGH for cosines": lambda: SGH(64, metric="cosine", n_steps=30, random_state=0),
    "ITQ": lambda: ITQ(24, n_iterations=5, random_state=0),
    "LSH": lambda: LSH(128, random_state=0),
    "PCAHashing": lambda: PCAHashing(10),
    "SignHashing": lambda: SignHashing(12),
    "SignHashing, more bits than columns": lambda: SignHashing(40),
}


def test_every_encoder_has_a_case_and_says_so():
    assert set(ENCODERS) == {type(make()) for make in MODELS.values()}
    assert {kind.__name__ for kind in ENCODERS} == {
        name for name in ALL_MODELS if model_class(name)().capabilities.onnx
    }


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_codes_are_equal_bit_for_bit(make, rng, tmp_path):
    train = rng.standard_normal((800, 24)).astype(np.float32) * 3 + 5
    model = make().fit(train)
    vectors = np.vstack([train, rng.standard_normal((4000, 24)), np.zeros((1, 24))])
    vectors = vectors.astype(np.float32)
    path = tmp_path / "encoder.onnx"
    made = to_onnx(model, path)
    found, right = codes_by_onnx(made, vectors), model.encode(vectors)
    assert found.dtype == np.uint8 and found.shape == right.shape
    np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(codes_by_onnx(made, vectors[:1]), right[:1])
    assert codes_by_onnx(made, vectors[:0]).shape == (0, right.shape[1])
    said = {entry.key: entry.value for entry in made.metadata_props}
    assert said["sghash.fingerprint"] == model.fingerprint_
    assert path.read_bytes() == made.SerializeToString()


@pytest.mark.parametrize("scale", [1e-37, 1e-22, 1e18, 1e37])
def test_cosines_of_very_long_and_short_vectors(scale, rng):
    model = SGH(64, metric="cosine", n_steps=20, random_state=0)
    model.fit(rng.standard_normal((500, 24)).astype(np.float32) + 1)
    vectors = (rng.standard_normal((500, 24)) * scale).astype(np.float32)
    found, right = codes_by_onnx(to_onnx(model), vectors), model.encode(vectors)
    assert np.bitwise_count(found ^ right).sum() <= 3  # roundings at zero


def test_what_cannot_be_written_is_said(rng):
    with pytest.raises(NotFitted):
        to_onnx(SGH(8))
    model = SpectralHashing(4).fit(rng.standard_normal((50, 4)).astype(np.float32))
    for wrong in (model, None, "SGH"):
        with pytest.raises(InvalidInput, match="cannot be written as ONNX"):
            to_onnx(wrong)
