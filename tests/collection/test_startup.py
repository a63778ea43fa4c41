"""A search loads what it needs, and nothing that only fitting needs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sghash
from sghash import kernels
from sghash.kernels import reference

PROGRAM = """
import sys
import numpy as np
from sghash import Collection
collection = Collection.open({folder!r})
found = collection.search(np.load({queries!r}), 5, rerank={rerank!r})
collection.get(found.ids[0])
print(found.ids.tolist())
print(sorted({{"sklearn", "scipy", "pandas", "numba", "tqdm"}} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("startup")
    vectors = np.random.default_rng(0).normal(size=(300, 12)).astype(np.float32)
    model = sghash.SGH(16, n_steps=20, random_state=0).fit(vectors)
    with sghash.Collection.create(path / "rows", model, keep_vectors="float32") as made:
        made.add(vectors)
    np.save(path / "queries.npy", vectors[:4])
    return path


def loaded(folder, rerank):
    names = {"folder": str(folder / "rows"), "queries": str(folder / "queries.npy")}
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(rerank=rerank, **names)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ids, modules = map(eval, out.stdout.splitlines())
    queries = np.load(folder / "queries.npy")
    expected = sghash.Collection.open(folder / "rows").search(queries, 5, rerank=rerank)
    assert ids == expected.ids.tolist()
    return modules


def test_a_first_small_search_loads_nothing_heavy(folder):
    assert loaded(folder, "none") == []


def test_reranking_loads_the_compiler_alone(folder):
    # Numba itself loads SciPy, to ask which linear algebra there is.
    assert set(loaded(folder, "vectors")) <= {"numba", "scipy"}


def test_numpy_searches_until_the_compiled_kernel_is_worth_loading(monkeypatch):
    used = []

    class Told:
        def __init__(self, name):
            self.hamming_neighbors = lambda *a, **o: (
                used.append(name) or (reference.hamming_neighbors(*a, **o))
            )

    monkeypatch.setattr(kernels, "kernel", Told)
    monkeypatch.setattr(kernels, "_pairs_done", 0)
    monkeypatch.setattr(kernels, "MOST_PAIRS", 100)
    monkeypatch.setitem(kernels.KERNELS, "simd", "not.loaded")
    codes = np.zeros((40, 16), dtype=np.uint8)
    for _ in range(3):
        kernels.hamming_neighbors(codes, codes[:1], 3, n_bits=128)
    assert used == ["reference", "reference", "simd"]
    # Bytes count: of codes eight times as long an eighth is searched, of short ones more.
    for width, many in ((128, 1), (1, 160)):
        used.clear()
        monkeypatch.setattr(kernels, "_pairs_done", 0)
        wide = np.zeros((10, width), dtype=np.uint8)
        for _ in range(400):
            kernels.hamming_neighbors(wide, wide[:1], 3, n_bits=8 * width)
        assert used.count("reference") == many
    monkeypatch.setitem(kernels.KERNELS, "simd", "sys")
    monkeypatch.setattr(kernels, "_pairs_done", 0)
    kernels.hamming_neighbors(codes, codes[:1], 3, n_bits=128)
    assert used[-1] == "simd"  # it is loaded, and nothing is quicker
