"""The public surface: what `__all__` lists, and what an import costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import sghash


def test_every_listed_name_resolves_and_none_is_forgotten():
    public = {name for name in dir(sghash) if not name.startswith("_")}
    for name in sghash.__all__:
        assert getattr(sghash, name) is not None
    modules = {name for name in public if type(getattr(sghash, name)).__name__ == "module"}
    assert public - modules - {"annotations", "TYPE_CHECKING", "Any"} == set(sghash.__all__) - {
        "__version__"
    }


def test_every_public_name_has_a_docstring():
    for name in sghash.__all__:
        value = getattr(sghash, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


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
    source = Path(sghash.__file__).read_text(encoding="utf-8")
    seen = set(re.findall(r"(\w+) as \1\b", source))
    assert seen == set(sghash.__all__) - {"__version__"}
