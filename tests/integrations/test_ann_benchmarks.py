"""The ann-benchmarks module, called as that benchmark's runner calls it.

`ANN_BENCHMARKS=<checkout>` tests against the real base class, the real reader of configs and the
real runner (with what they import installed). Else a base class with the same methods stands in,
for the benchmark is in no package registry.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sghash.data.builtin import clusters

yaml = pytest.importorskip("yaml")

OURS = Path(__file__).parents[2] / "integrations" / "ann_benchmarks" / "sghash"
GIVEN = os.environ.get("ANN_BENCHMARKS")
STAND_IN = """
class BaseANN:
    def done(self): pass
    def get_memory_usage(self): return 1e9
    def fit(self, X): raise NotImplementedError
    def query(self, q, n): raise NotImplementedError
    def batch_query(self, X, n): self.res = [self.query(q, n) for q in X]
    def get_batch_results(self): return self.res
    def get_additional(self): return {}
    def __str__(self): return self.name
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of the benchmark with our folder in it; the working directory, as it expects."""
    target = tmp_path / "ann_benchmarks"
    if GIVEN:
        shutil.copytree(Path(GIVEN) / "ann_benchmarks", target)
    else:
        base = target / "algorithms" / "base"
        base.mkdir(parents=True)
        (base / "module.py").write_text(STAND_IN)
    shutil.copytree(OURS, target / "algorithms" / "sghash", dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "ann_benchmarks"]:
        del sys.modules[name]


def definitions(point_type, metric, width):
    """Of every algorithm that our config asks for: name, class, arguments, query arguments."""
    if GIVEN:
        real = importlib.import_module("ann_benchmarks.definitions")
        for found in real.get_definitions(width, point_type, metric, 10):
            if found.module == "ann_benchmarks.algorithms.sghash":
                made = getattr(importlib.import_module(f"{found.module}.module"), found.constructor)
                yield found.algorithm, made, found.arguments, found.query_argument_groups
        return
    config = yaml.safe_load((OURS / "config.yml").read_text())[point_type]
    for entry in config.get("any", []) or config[metric]:
        module = importlib.import_module(f"{entry['module']}.module")
        for group in entry["run_groups"].values():
            asked = [list(q) for q in itertools.product(*group.get("query_args", []))]
            for chosen in itertools.product(*group["args"]):
                given = [metric if a == "@metric" else a for a in (*entry["base_args"], *chosen)]
                yield entry["name"], getattr(module, entry["constructor"]), given, asked


def float_data(metric):
    """Rows, queries, and the ten true neighbours of each."""
    data = clusters(n_vectors=1500, width=32, n_queries=20)
    a, b = base, queries = np.asarray(data.base), np.asarray(data.queries)
    if metric == "angular":
        a, b = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (base, queries))
    return base, queries, np.argsort(((b[:, None] - a) ** 2).sum(axis=2), axis=1)[:, :10]


def built(algorithm, rows):
    """Fit as the runner does; returns the kilobytes that it would report."""
    before = algorithm.get_memory_usage()
    algorithm.fit(rows)
    return algorithm.get_memory_usage() - before


def recall_of(algorithm, queries, truth):
    """Share of the true ten that single queries find; batches must answer the same."""
    single = np.asarray([algorithm.query(q, 10) for q in queries])
    algorithm.batch_query(queries, 10)
    np.testing.assert_array_equal(np.asarray(algorithm.get_batch_results()), single)
    return np.mean([len(set(x) & set(y)) / 10 for x, y in zip(single, truth, strict=True)])


def test_the_config_asks_for_what_the_module_has(checkout):
    asked = list(definitions("float", "angular", 32))
    assert {(name, len(groups)) for name, _, _, groups in asked} == {
        ("sghash", 2), ("sghash", 9), ("sghash-lists", 8)
    }  # fmt: skip
    assert len(asked) == 6
    ((name, made, given, groups),) = definitions("bit", "hamming", 16)
    assert (name, given, groups in ([], [[]])) == ("sghash-hamming", ["hamming"], True)
    assert str(made(*given)) == name


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_codes(checkout, metric):
    base, queries, truth = float_data(metric)
    _, made, given, groups = next(d for d in definitions("float", metric, 32) if len(d[3]) == 9)
    algorithm = made(*given)
    # 8 bytes of code and 128 of vector a row, and a model.
    assert 1500 * 136 / 1024 < built(algorithm, base) < 1500 * 136 / 1024 + 64
    folder, recalls, names = algorithm.folder, [], set()
    for arguments in groups:
        algorithm.set_query_arguments(*arguments)
        names.add(str(algorithm))
        recalls.append(recall_of(algorithm, queries, truth))
    assert len(names) == len(groups)
    assert recalls == sorted(recalls) and recalls[-1] > 0.999
    more = algorithm.get_additional()
    assert more["bytes_per_code"] == 8 and more["index_bytes"] == algorithm.index_bytes
    algorithm.done()
    assert not folder.exists()


@pytest.mark.slow
def test_lists(checkout):
    base, queries, truth = float_data("euclidean")
    _, made, given, groups = next(d for d in definitions("float", "euclidean", 32) if "-" in d[0])
    algorithm = made(*given)
    algorithm._build(base, 16)  # `fit` makes lists of 20,000 rows or more
    assert algorithm.collection.stats()["lists"] == 16
    for (target,) in groups:
        algorithm.set_query_arguments(target)
        assert recall_of(algorithm, queries, truth) > target - 0.12
    algorithm.done()


@pytest.mark.slow
def test_kernels_are_ready_before_time_is_taken(checkout, monkeypatch):
    """No search of the runner is the first of its kind: single and batch ran with each setting."""
    base, queries, _ = float_data("euclidean")
    _, made, given, _ = next(d for d in definitions("float", "euclidean", 32) if d[0] == "sghash")
    seen = []
    search = made._search

    def noted(self, queries, n, threads):
        seen.append((str(self), len(queries) > 8, threads))
        return search(self, queries, n, threads)

    monkeypatch.setattr(made, "_search", noted)
    algorithm = made(*given)
    built(algorithm, base)
    for shortlist in (20, 500):
        algorithm.set_query_arguments(shortlist)
        ready = set(seen)
        algorithm.query(queries[0], 10)
        algorithm.batch_query(queries, 10)
        assert set(seen[-2:]) <= ready
    algorithm.done()


def test_bits(checkout, rng):
    bits = rng.random((800, 100)) < 0.5
    ((_, made, given, _),) = definitions("bit", "hamming", 100)
    algorithm = made(*given)
    assert 800 * 13 <= built(algorithm, bits) * 1024 == algorithm.get_additional()["index_bytes"]
    distances = (bits[:5, None] != bits).sum(axis=2)
    for query, row in zip(bits[:5], distances, strict=True):
        found = algorithm.query(query, 10)
        np.testing.assert_array_equal(row[found], np.sort(row)[:10])
    algorithm.batch_query(bits[:5], 10)
    assert np.asarray(algorithm.get_batch_results()).shape == (5, 10)


def test_more_neighbours_than_rows_are_those_there_are(checkout, rng):
    ((_, made, given, _),) = definitions("bit", "hamming", 16)
    algorithm = made(*given)
    algorithm.fit(rng.random((7, 16)) < 0.5)
    assert sorted(algorithm.query(np.ones(16, dtype=bool), 10)) == list(range(7))


def test_metrics_that_are_not_served_are_refused(checkout):
    module = importlib.import_module("ann_benchmarks.algorithms.sghash.module")
    with pytest.raises(NotImplementedError, match="jaccard"):
        module.Sghash("jaccard", 64)
    with pytest.raises(NotImplementedError, match="euclidean"):
        module.SghashHamming("euclidean")


def test_the_image_brings_a_python_that_we_support():
    text = (OURS / "Dockerfile").read_text()
    image, minor = re.search(r"^FROM (python):3\.(\d+)", text, flags=re.MULTILINE).groups()
    assert image == "python" and int(minor) >= 11
    for needed in (
        "COPY requirements.txt run_algorithm.py",
        'ENTRYPOINT ["python"',
        "--find-links",
    ):
        assert needed in text


@pytest.mark.slow
@pytest.mark.skipif(not GIVEN, reason="ANN_BENCHMARKS names no checkout of the benchmark")
def test_the_real_runner_stores_our_results(checkout):
    h5py = pytest.importorskip("h5py")
    runner = importlib.import_module("ann_benchmarks.runner")
    found = importlib.import_module("ann_benchmarks.definitions").get_definitions(
        16, "bit", "hamming", 10
    )
    (ours,) = [d for d in found if d.algorithm == "sghash-hamming"]
    datasets = importlib.import_module("ann_benchmarks.datasets")
    (checkout / "data").mkdir()
    datasets.DATASETS["random-xs-16-hamming"](str(checkout / "data/random-xs-16-hamming.hdf5"))
    for batch in (False, True):
        runner.run(ours, "random-xs-16-hamming", 10, 1, batch)
    stored = sorted((checkout / "results").rglob("*.hdf5"))
    assert len(stored) == 2
    for path in stored:
        with h5py.File(path) as file:
            assert file.attrs["index_size"] * 1024 == file.attrs["index_bytes"] > 0
            assert file["neighbors"].shape[1] == 10
