"""The public surface: what `__all__` lists, and what an import costs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sghash

NAMES = list(sghash.__all__)


def test_every_listed_name_resolves_and_none_is_forgotten():
    public = {name for name in dir(sghash) if not name.startswith("_")}
    for name in NAMES:
        assert getattr(sghash, name) is not None
    modules = {name for name in public if type(getattr(sghash, name)).__name__ == "module"}
    assert public - modules - {"annotations", "TYPE_CHECKING", "Any"} == set(NAMES) - {
        "__version__"
    }


def test_the_top_level_is_short():
    assert len(sghash.__all__) == len(set(sghash.__all__)) <= 30


def test_every_public_name_has_a_docstring():
    for name in NAMES:
        value = getattr(sghash, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("name", sorted(sghash._MOVED))
def test_a_name_that_left_the_top_level_says_where_it_is(name):
    home = sghash._MOVED[name]
    with pytest.raises(AttributeError, match=f"^sghash.{name} is now {home}$"):
        getattr(sghash, name)
    room, _, there = home.rpartition(".")
    assert getattr(importlib.import_module(room), there) is not None
    assert name not in sghash.__all__


def test_modules_need_no_import_of_their_own():
    program = "import sghash; print(sghash.models.LSH.__name__, sghash.errors.BadFile.__name__)"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["LSH", "BadFile"]


def test_import_is_light():
    program = (
        "import sys, sghash; "
        "heavy = {'numba', 'sklearn', 'faiss', 'h5py', 'pyarrow', 'matplotlib', 'torch', 'scipy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


def test_type_checkers_see_the_same_names():
    assert seen_by_type_checkers(sghash) == {*sghash._HOMES, *sghash._MODULES}
    models = sghash.models
    assert seen_by_type_checkers(models) == {*models.MODELS, *models._FUNCTIONS}


def seen_by_type_checkers(module):
    source = Path(module.__file__).read_text(encoding="utf-8")
    return set(re.findall(r"(\w+) as \1\b", source))


def test_names_that_load_late_are_offered_for_completion():
    assert {"SGH", "HammingIndex", "models", "evaluation"} <= set(dir(sghash))
    assert {*sghash.MODELS, "minimize_binary", "load_model"} <= set(dir(sghash.models))
    for module in (sghash, sghash.models):
        assert len(dir(module)) == len(set(dir(module)))
