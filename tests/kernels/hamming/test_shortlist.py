"""A shortlist holds what a search for so many neighbours holds, whether or not a sample helped."""

from __future__ import annotations

import numpy as np
import pytest

from sghash.kernels import reference
from sghash.kernels.hamming import shortlist


@pytest.mark.parametrize("kind", ["random", "clustered", "sorted", "sample is useless"])
@pytest.mark.parametrize("threads", [1, 2])
def test_shortlist_is_the_nearest_and_their_ties(kind, threads, rng, monkeypatch):
    sampled = []
    plain = shortlist.new_selection
    monkeypatch.setattr(
        shortlist, "new_selection", lambda *sizes: sampled.append(sizes) or plain(*sizes)
    )
    n, length = 9_000, 100
    codes = rng.integers(0, 256, (n, 4), dtype=np.uint8)
    queries = rng.integers(0, 256, (20, 4), dtype=np.uint8)
    if kind == "clustered":
        codes = codes[rng.integers(0, 300, n)]
    elif kind == "sorted":
        codes = codes[np.lexsort(codes.T)]
    elif kind == "sample is useless":
        # Every row of the sample is as near as can be, no other row is.
        codes[:: shortlist.STRIDE] = queries[rng.integers(0, 20, len(codes[:: shortlist.STRIDE]))]
    mask = rng.random(n) < 0.8
    for allowed in (None, mask):
        wide = reference.hamming_neighbors(
            codes, queries, shortlist.with_ties(length), n_bits=32, mask=allowed
        )
        found = shortlist.hamming_shortlist(
            codes, queries, length, n_bits=32, mask=allowed, threads=threads
        )
        assert found.ids.shape == wide.ids.shape
        # Complete up to the distance of row number `length`; beyond it rows may be missing.
        inside = wide.distances <= wide.distances[:, length - 1 : length]
        np.testing.assert_array_equal(found.ids[inside], wide.ids[inside])
        np.testing.assert_array_equal(found.distances[inside], wide.distances[inside])
        assert len(sampled) == threads, "no sample was taken"
        sampled.clear()
