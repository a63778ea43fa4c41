"""The real data sets, where they are: what the catalog says of them is true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sghash.data import CATALOG, content_hash, load_dataset

# How the checksum of each begins.
SETS = {
    "mnist": "56a6d03d273f",
    "sift-photos": "aa6ee57391a4",
    "cifar10-gist": "5540176a47a5",
    "glove100": "f2f0e9d5625a",
    "minilm-wordnet": "9727245168a6",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
def test_real_sets_open_as_described(data_folder: Path, name: str) -> None:
    found = load_dataset(name, fetch=False)
    assert found.base.shape == CATALOG[name].base
    assert found.checksum.startswith(SETS[name])
    assert content_hash(found.base) != content_hash(found.queries)


@pytest.mark.slow
def test_real_jpeg_images(data_folder: Path) -> None:
    found = load_dataset("cifar10-jpeg", fetch=False)
    assert found.base.read(0, 100).std() > 30
    assert np.asarray(found.queries).shape == (10_000, 3072)
