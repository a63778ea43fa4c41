"""A model saved over another is there whole, the old or the new, whenever Ctrl-C comes."""

from __future__ import annotations

import os

import numpy as np
import pytest

import sghash


@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("is_done", [False, True])
def test_an_interrupted_save_leaves_a_whole_model(tmp_path, monkeypatch, rng, calls, is_done):
    vectors = rng.standard_normal((60, 6)).astype(np.float32)
    old, new = (sghash.LSH(n_bits=8, random_state=seed).fit(vectors) for seed in (0, 1))
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
