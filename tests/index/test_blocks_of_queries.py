"""Many queries with long shortlists are answered in blocks, with the same answers."""

from __future__ import annotations

import numpy as np
import pytest

from sghash import SGH, Collection
from sghash.index import stages


@pytest.mark.parametrize(
    "options",
    [
        {"rerank": "none"},
        {"rerank": "decoder"},
        {"rerank": "decoder", "shortlist": "all"},
        {"rerank": "vectors", "shortlist": 300},
        {"rerank": "vectors", "shortlist": (300, 60)},
        {"target_recall": 0.9},
    ],
    ids=str,
)
def test_blocks_change_nothing(tmp_path, monkeypatch, options):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3000, 16)).astype(np.float32)
    queries = rng.standard_normal((23, 16)).astype(np.float32)
    model = SGH(32, random_state=0).fit(vectors)
    with Collection.create(tmp_path / "c", model, keep_vectors="float16") as made:
        for some in np.split(vectors, [100, 150]):
            made.add(some)
            made.compact() if len(some) == 100 else None
        whole = made.search(queries, 10, **options)
        sizes = []
        real = stages.Query.part
        monkeypatch.setattr(stages, "CANDIDATES", 100)
        monkeypatch.setattr(
            stages.Query, "part", lambda self, some: (sizes.append(some), real(self, some))[1]
        )
        parts = made.search(queries, 10, **options)
    assert len(sizes) > 1
    assert (whole.ids == parts.ids).all() and (whole.distances == parts.distances).all()
