from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash import Collection

WORDS = ("river water boat", "stone house door", "horse field grass")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """300 vectors of three kinds that are pictures of 4 x 6, with texts that say which."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 300)
    vectors = 3 * rng.standard_normal((3, 24))[kinds] + rng.standard_normal((300, 24))
    vectors = vectors.astype(np.float32)
    folder = tmp_path_factory.mktemp("explored") / "rows"
    model = sghash.ITQ(20, random_state=0).fit(vectors)
    columns = {
        "kind": [f"kind {kind}" for kind in kinds],
        "text": [f"{WORDS[kind]} number {row}" for row, kind in enumerate(kinds)],
        "size": [float(row) if row % 7 else None for row in range(300)],
    }
    with Collection.create(folder, model, keep_vectors="float32") as collection:
        collection.add(vectors, metadata=columns)
        collection.describe(text="text", label="kind", picture="4x6")
        collection.delete([7, 11])
    return folder


@pytest.fixture
def collection(made):
    return Collection.open(made)
