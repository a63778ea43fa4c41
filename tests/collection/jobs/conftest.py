from __future__ import annotations

import numpy as np
import pytest

from sghash import Collection

N = 90


@pytest.fixture
def files(tmp_path, vectors):
    folder = tmp_path / "files"
    folder.mkdir()
    for name, start, stop in (("b", 40, 65), ("a", 0, 40), ("c", 65, N)):
        np.save(folder / f"{name}.npy", vectors[start:stop])
    return folder


@pytest.fixture
def collection(tmp_path, model):
    return Collection.create(tmp_path / "c", model)
