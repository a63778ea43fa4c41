"""Models are scikit-learn's estimators for whoever asks, and load it for nobody else."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

import sghash
from sghash.errors import InvalidDtype, InvalidInput, NotFitted, SghashError
from sghash.models import MODELS, model_class
from sghash.models.late_estimator import options_of

LOADED = """
import sys
import numpy as np, sghash
model = sghash.load_model({folder!r})
codes = model.encode(np.zeros((40, 6), dtype=np.float32))
one = model.encode(np.zeros(6, dtype=np.float32))
assert one.tolist() == codes[:1].tolist()
model.decode(codes), model.fingerprint_
before = "sklearn" in sys.modules
{touch}
from sklearn.base import BaseEstimator
print(before, isinstance(model, BaseEstimator))
"""
# Each loads scikit-learn in a process of its own: a few stand for all in the quick tests.
SLOW = pytest.mark.slow
TOUCHES = (
    "repr(model)",
    "from sklearn.base import clone; clone(model)",
    pytest.param("model.get_params()", marks=SLOW),
    pytest.param("model.set_params(n_bits=4)", marks=SLOW),
    pytest.param("model.set_output(transform='pandas')", marks=SLOW),
    pytest.param("model.fit_transform(np.random.default_rng(0).normal(size=(30, 6)))", marks=SLOW),
    pytest.param("from sklearn.utils import get_tags; get_tags(model)", marks=SLOW),
    pytest.param(
        "from sklearn.pipeline import make_pipeline; make_pipeline(model).get_params()", marks=SLOW
    ),
    pytest.param("type(model)()", marks=SLOW),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("late") / "model"
    vectors = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    sghash.ITQ(4, random_state=0).fit(vectors).save(path)
    return path


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_loaded_model_becomes_an_estimator_when_it_is_used_as_one(folder, touch):
    program = LOADED.format(folder=str(folder), touch=touch)
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert out.stdout.split() == ["False", "True"], out.stderr


@pytest.mark.slow
def test_many_threads_may_be_the_first(folder):
    program = f"""
import threading, sghash
model = sghash.load_model({str(folder)!r})
said, start = [], threading.Barrier(8)
def look():
    start.wait()
    said.append((repr(model), sorted(model.get_params()), callable(model.set_output)))
threads = [threading.Thread(target=look) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(said), len({{str(one) for one in said}}))
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert out.stdout.split() == ["8", "1"], out.stderr


@pytest.mark.parametrize("name", MODELS)
def test_models_are_estimators(name):
    cls = model_class(name)
    assert issubclass(cls, BaseEstimator) and issubclass(cls, TransformerMixin)
    model = cls()
    assert options_of(model) == model.get_params(deep=False)
    assert callable(model.set_output) and type(clone(model)) is cls


@pytest.mark.parametrize("name", MODELS)
def test_unknown_options_are_refused_in_a_sentence(name):
    cls = model_class(name)
    with pytest.raises(InvalidDtype, match=rf"{name} has no option wrong: it has "):
        cls(wrong=1)
    with pytest.raises(TypeError, match="did you mean random_state"):
        sghash.SGH(random_stat=1)
    if "metric" not in cls().get_params(deep=False):
        with pytest.raises(InvalidInput, match=r"has no metric.*Collection.create"):
            cls(metric="cosine")


@pytest.mark.parametrize("name", MODELS)
def test_the_length_of_a_code_comes_first(name):
    model = model_class(name)(16)
    assert getattr(model, model.capabilities.length.option) == 16


def test_an_unfitted_model_raises_an_error_that_is_ours_and_theirs():
    with pytest.raises(NotFitted, match=r"not fitted yet.*call fit first") as caught:
        sghash.SGH(8).encode(np.zeros((2, 3)))
    for kind in (SghashError, NotFittedError, ValueError, AttributeError):
        assert isinstance(caught.value, kind)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and isinstance(again, NotFittedError)
