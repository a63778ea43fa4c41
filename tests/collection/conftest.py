"""A small fitted model, and vectors that it was not fitted on."""

from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash import Collection
from sghash.collection.storage import writer
from sghash.validation import METRICS

WIDTH, N = 12, 300


@pytest.fixture(scope="session")
def training():
    return np.random.default_rng(5).standard_normal((400, WIDTH)).astype(np.float32)


@pytest.fixture(scope="session")
def model(training):
    return sghash.ITQ(n_bits=20, random_state=0).fit(training)


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((N, WIDTH)).astype(np.float32)


@pytest.fixture(scope="session")
def product(training):
    """Few centroids: most values of a byte name none."""
    return sghash.ProductQuantizer(n_parts=5, n_centroids=8, random_state=0).fit(training)


@pytest.fixture(scope="session")
def generative(training):
    """One for each metric, hardly trained."""
    options = {"n_bytes": 3, "n_rounds": 1, "n_sweeps": 1, "random_state": 0}
    return {m: sghash.GenerativeQuantizer(metric=m, **options).fit(training) for m in METRICS}


@pytest.fixture
def filled(tmp_path, product, vectors, monkeypatch):
    """Make a collection of several segments, of deleted rows, and of rows in the log."""

    def fill(model=product, *, metric="l2", keep=None, name="c"):
        monkeypatch.setattr(writer, "LOG_RECORDS", 2)
        collection = Collection.create(tmp_path / name, model, metric=metric, keep_vectors=keep)
        for start in range(0, N, 50):
            years = {"year": list(range(start, start + 50))}
            collection.add(vectors[start : start + 50], metadata=years)
        monkeypatch.setattr(writer, "LOG_RECORDS", 1024)
        collection.delete(np.arange(0, N, 7))
        assert collection.stats()["n_segments"] > 1 and collection.stats()["kind"] == "tables"
        return collection

    return fill
