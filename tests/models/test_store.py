"""A model saved over another is there whole, the old or the new, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import sghash
from sghash.errors import BadFile
from sghash.files import exchange, usual_mode
from sghash.models import placing


@pytest.fixture
def models(rng):
    vectors = rng.standard_normal((60, 6)).astype(np.float32)
    return [sghash.models.LSH(n_bits=8, random_state=seed).fit(vectors) for seed in (0, 1)]


@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("is_done", [False, True])
def test_an_interrupted_save_leaves_a_whole_model(tmp_path, monkeypatch, models, calls, is_done):
    """Where two folders cannot be exchanged in one step."""
    old, new = models
    old.save(tmp_path / "model")
    replace, made = os.replace, []

    def interrupted(source, target):
        if len(made) != calls:
            made.append(target)
            return replace(source, target)
        made.append(target)
        if is_done:
            replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(placing, "exchange", lambda left, right: False)
    monkeypatch.setattr(os, "replace", interrupted)
    if calls < 2:
        with pytest.raises(KeyboardInterrupt):
            new.save(tmp_path / "model", overwrite=True)
    else:
        new.save(tmp_path / "model", overwrite=True)
    monkeypatch.undo()
    kept = sghash.load_model(tmp_path / "model").fingerprint_
    is_new = calls == 2 or (calls == 1 and is_done)
    assert kept == (new if is_new else old).fingerprint_
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("is_done", [False, True])
def test_ctrl_c_at_the_exchange_leaves_a_whole_model(tmp_path, monkeypatch, models, is_done):
    old, new = models
    old.save(tmp_path / "model")

    def interrupted(left, right):
        if is_done:
            assert exchange(left, right)
        raise KeyboardInterrupt

    monkeypatch.setattr(placing, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new.save(tmp_path / "model", overwrite=True)
    kept = sghash.load_model(tmp_path / "model").fingerprint_
    assert kept == (new if is_done else old).fingerprint_
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def killed(how, folder):
    program = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(program), how, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders in one step")
@pytest.mark.parametrize("how", ["calls", pytest.param("moments", marks=pytest.mark.slow)])
def test_a_killed_save_leaves_a_model_under_its_name(tmp_path, how):
    found = killed(how, tmp_path)
    assert set(found) == {"old", "new", "stopped"}
    assert found["stopped"] >= (20 if how == "calls" else 10)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs processes that can be killed")
def test_without_exchange_a_sentence_says_where_the_old_model_is(tmp_path):
    found = killed("fallback", tmp_path)
    assert found["stopped"] >= 20 and 1 <= found["aside"] <= 2


def test_a_folder_that_never_was_is_one_sentence(tmp_path):
    with pytest.raises(BadFile, match=r"there is no model folder .*: check the path"):
        sghash.load_model(tmp_path / "model")


def test_loading_while_others_save(tmp_path, models):
    """Each load finds one of the two models, never a mixture or nothing."""
    models[0].save(tmp_path / "model")
    known, ended = {model.fingerprint_ for model in models}, threading.Event()

    def save():
        turn = 0
        while not ended.is_set():
            models[turn % 2].save(tmp_path / "model", overwrite=True)
            turn += 1

    saving = threading.Thread(target=save)
    saving.start()
    try:
        found = [sghash.load_model(tmp_path / "model").fingerprint_ for _ in range(150)]
    finally:
        ended.set()
        saving.join()
    assert set(found) <= known


def test_what_others_are_writing_is_left_alone(tmp_path, monkeypatch, models):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(placing, "YOUNG_SECONDS", 0.0)
    busy, dead, other = (
        tmp_path / name
        for name in (f".model.new.{'a' * 16}", f".model.new.{'b' * 16}", ".model.new.mine")
    )
    for folder in (busy, dead, other):
        folder.mkdir()
    handle = os.open(busy, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        models[0].save(tmp_path / "model")
    finally:
        os.close(handle)
    assert busy.exists() and other.exists() and not dead.exists()
    # One that is hardly made may not have its lock yet.
    monkeypatch.setattr(placing, "YOUNG_SECONDS", 60.0)
    models[0].save(tmp_path / "model", overwrite=True)
    assert busy.exists()


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o022, 0o002])
def test_a_model_is_as_private_as_the_user_wants(tmp_path, models, umask):
    before = os.umask(umask)
    try:
        for _ in range(2):
            models[0].save(tmp_path / "model", overwrite=True)
            assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask
            for path in (tmp_path / "model").iterdir():
                assert path.stat().st_mode & 0o777 == usual_mode() == 0o666 & ~umask
    finally:
        os.umask(before)


def test_a_link_stays_a_link(tmp_path, models):
    models[0].save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    models[1].save(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert sghash.load_model(tmp_path / "real").fingerprint_ == models[1].fingerprint_
