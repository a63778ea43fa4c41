"""The house stays simple: no private name of another file, no crowded folder, no long file.

`measure.py` prints the numbers; here are those that may not grow, and proofs that they can.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SRC = HERE.parent.parent / "src"
sys.path.insert(0, str(HERE))

from duplicates import alike, copies  # noqa: E402
from private_names import private_uses  # noqa: E402
from sizes import FILE_LIMIT, FOLDER_LIMIT, above, files, folders  # noqa: E402

# Modules of PyTorch say only there whether somebody hooked into them.
ALLOWED_PRIVATE = {
    "sghash/models/sgh/variants/deep_modules.py _forward_hooks",
    "sghash/models/sgh/variants/deep_modules.py _forward_pre_hooks",
}


def test_no_file_uses_a_private_name_of_another():
    uses = {re.sub(r":\d+", "", use) for use in private_uses(SRC)}
    assert uses - ALLOWED_PRIVATE == set()


def test_no_folder_is_crowded():
    assert above(folders(SRC), FOLDER_LIMIT) == []


def test_no_file_is_long():
    assert {place.where for place in above(files(SRC), FILE_LIMIT)} == set()


def test_what_a_model_can_do_is_declared_not_guessed():
    asked = {
        file.relative_to(SRC).as_posix()
        for file in SRC.rglob("*.py")
        if "hasattr(model" in file.read_text(encoding="utf-8")
    }
    assert asked == set()


def test_two_levels_of_folders_are_enough():
    levels = {len(file.parent.relative_to(SRC / "sghash").parts) for file in SRC.rglob("*.py")}
    assert max(levels) <= 3


@pytest.fixture
def tree(tmp_path):
    """A source tree that is written by a test: {file below sghash: text}."""

    def tree(written):
        for name, text in written.items():
            file = tmp_path / "sghash" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return tree


@pytest.mark.parametrize(
    "text",
    [
        "from sghash.a import _secret\n",
        "from sghash import a\na._secret()\n",
        "def f(model):\n    model._secret = 1\n",
        "def f(model):\n    return type(model)._secret is not B._secret\n",
        "class A(Protocol):\n    def _secret(self): ...\n\ndef f(a):\n    return a._secret\n",
        "def _secret(): ...\ndef f(model):\n    return model._secret\n",
    ],
)
def test_private_names_of_others_are_found(tree, text):
    assert private_uses(tree({"b.py": text}))


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def f(self):\n        self._own = 1\n        return self._own\n",
        "class A(B):\n    def f(self):\n        return super()._inherited()\n",
        "class A:\n    def __init__(self):\n        self._own = 1\n\ndef f(a):\n    a._own = 2\n",
        "def f(point):\n    return point._replace(x=1)\n",
        "def f(x):\n    return x.__class__\n",
    ],
)
def test_names_of_ones_own_are_not(tree, text):
    assert private_uses(tree({"b.py": text})) == []


BODY = """def f(rows, k):
    '''Say {word}.'''
    total = rows.sum(axis=0) + {number}
    for row in rows[:k]:
        total = total * row - k
        if total.any() and k > 3:
            total = total.clip(0, k)
    return total / len(rows)
"""


def test_copies_are_found_whatever_their_names(tree):
    one, other = BODY.format(word="one", number=2), BODY.format(word="other", number=2)
    for old, new in {"rows": "vectors", "total": "result", "clip": "cut", "f(": "g("}.items():
        other = other.replace(old, new)
    src = tree({"a.py": one, "b.py": f"import numpy\n\n\n{other}"})
    (found,) = copies(src)
    assert (found.one, found.other, found.length) == (("sghash/a.py", 1), ("sghash/b.py", 4), 7)
    assert alike(src)[0].share == 1.0


def test_another_constant_is_no_copy_but_alike(tree):
    src = tree({"a.py": BODY.format(word="", number=2), "b.py": BODY.format(word="", number=3)})
    (found,) = copies(src)  # the statements after the constant
    (near,) = alike(src)
    assert found.length == 5 and 0.6 < near.share < 1.0


def test_sizes_are_counted(tree):
    src = tree({f"rooms/file{i}.py": "x = 1\n" * i for i in range(20)} | {"rooms/__init__.py": ""})
    assert above(folders(src), FOLDER_LIMIT) == [("rooms", 20)]
    assert files(src)[0] == ("sghash/rooms/file19.py", 19)
    verbs = tree({f"cli/verbs/file{i}.py": "" for i in range(20)})
    assert [place.where for place in folders(verbs)] == ["rooms"]


@pytest.mark.slow
def test_the_table_has_a_column_for_each_tree():
    command = [sys.executable, str(HERE / "measure.py"), "--src", str(SRC), "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line for line in done.stdout.split("\n\n")[0].splitlines() if "entered by" in line]
    numbers = [re.findall(r"\d+", row)[-2:] for row in rows]
    assert len(rows) == 5 and all(int(a) > 5 and a == b for a, b in numbers)
    assert "here: files entered by: SGH.fit" in done.stdout
