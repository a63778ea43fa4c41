"""What a shell offers after Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sghash.cli.frame import VERBS


def test_verbs_and_options(offered):
    assert offered("") == list(VERBS)
    assert offered("de") == ["demo", "decode", "delete"]
    assert "--keep-vectors" in offered("create", "--k")
    assert offered("search", "c", "q", "--rerank", "") == ["none", "decoder", "vectors"]


def test_models_data_sets_and_formats(offered):
    assert offered("fit", "v.npy", "m", "--model", "S")[0] == "SGH"
    assert offered("evaluate", "--models", "SGH,IT") == ["SGH,ITQ"]
    assert offered("evaluate", "--dataset", "dig") == ["digits"]
    assert offered("fit", "digits.") == ["digits.base", "digits.queries"]
    assert offered("fit", "") == ["file"] and offered("fit", "vec") == ["file"]
    assert offered("convert", "v.npy", "out/new.f") == [
        "out/new.fvecs", "out/new.fbin", "out/new.f16bin"
    ]  # fmt: skip
    assert offered("convert", "v.npy", "new") == ["file"]


def test_files_are_offered_beside_data_sets(offered, folder):
    (folder / "digital.npy").touch()
    assert offered("fit", "digit") == ["digital.npy", "digits.base", "digits.queries"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_what_the_shell_understands(run, shell, tmp_path):
    script = run("completion", shell).stdout
    assert "_SGHASH_COMPLETE" in script and "sghash" in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        assert subprocess.run([shell, "-n", str(path)], timeout=60).returncode == 0


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_with_the_script():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = (
        'eval "$(sghash completion bash)"; COMP_WORDS=(sghash fit digits.); COMP_CWORD=2; '
        '_sghash_completion sghash; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout == "digits.base digits.queries\n", done.stderr


def test_the_program_answers_a_shell():
    variables = {
        **os.environ, "_SGHASH_COMPLETE": "bash_complete", "COMP_WORDS": "sghash ver",
        "COMP_CWORD": "1",
    }  # fmt: skip
    program_ = "import sghash.cli; sghash.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", program_], env=variables, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "plain,verify\n"
