"""The ann-benchmarks module, called as that benchmark's runner calls it.

`ANN_BENCHMARKS=<checkout>` tests against the real base class and the real reader of configs. Else
a base class with the same methods stands in, for the benchmark is in no package registry.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sghash.data.builtin import clusters

yaml = pytest.importorskip("yaml")

OURS = Path(__file__).parents[2] / "integrations" / "ann_benchmarks" / "sghash"
STAND_IN = """
class BaseANN:
    def done(self): pass
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
    given = os.environ.get("ANN_BENCHMARKS")
    target = tmp_path / "ann_benchmarks"
    if given:
        shutil.copytree(Path(given) / "ann_benchmarks", target)
    else:
        base = target / "algorithms" / "base"
        base.mkdir(parents=True)
        (base / "module.py").write_text(STAND_IN)
    shutil.copytree(OURS, target / "algorithms" / "sghash")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "ann_benchmarks"]:
        del sys.modules[name]


def algorithms(point_type, metric, width):
    """Every algorithm that our config asks for, with its groups of query arguments."""
    if os.environ.get("ANN_BENCHMARKS"):
        definitions = importlib.import_module("ann_benchmarks.definitions")
        for found in definitions.get_definitions(None, width, point_type, metric, 10):
            if found.module == "ann_benchmarks.algorithms.sghash":
                yield definitions.instantiate_algorithm(found), found.query_argument_groups
        return
    config = yaml.safe_load((OURS / "config.yml").read_text())[point_type]
    for entry in config.get("any", []) or config[metric]:
        module = importlib.import_module(f"{entry['module']}.module")
        for group in entry["run_groups"].values():
            for chosen in itertools.product(*group["args"]):
                arguments = [
                    metric if a == "@metric" else a for a in (*entry["base_args"], *chosen)
                ]
                algorithm = getattr(module, entry["constructor"])(*arguments)
                yield algorithm, [list(q) for q in itertools.product(*group.get("query_args", []))]


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["euclidean", "angular"])
def test_float_data(checkout, metric):
    data = clusters(n_vectors=1500, width=32, n_queries=20)
    base, queries = np.asarray(data.base), np.asarray(data.queries)
    a, b = base, queries
    if metric == "angular":
        a, b = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (base, queries))
    order = np.argsort(((b[:, None] - a) ** 2).sum(axis=2), axis=1)[:, :10]
    names = set()
    made = list(algorithms("float", metric, 32))
    assert len(made) == 3 and all(len(groups) == 9 for _, groups in made)
    algorithm, groups = made[0]
    algorithm.fit(base)
    folder, recalls = algorithm.folder, []
    for arguments in groups:
        algorithm.set_query_arguments(*arguments)
        names.add(str(algorithm))
        single = np.asarray([algorithm.query(q, 10) for q in queries])
        algorithm.batch_query(queries, 10)
        np.testing.assert_array_equal(np.asarray(algorithm.get_batch_results()), single)
        recalls.append(
            np.mean([len(set(x) & set(y)) / 10 for x, y in zip(single, order, strict=True)])
        )
    assert len(names) == len(groups)
    assert recalls == sorted(recalls) and recalls[-1] > 0.999
    assert algorithm.get_additional() == {"bytes_per_code": 8}
    algorithm.done()
    assert not folder.exists()


def test_bits(checkout, rng):
    bits = rng.random((800, 100)) < 0.5
    ((algorithm, groups),) = algorithms("bit", "hamming", 100)
    assert groups in ([], [[]])
    algorithm.fit(bits)
    distances = (bits[:5, None] != bits).sum(axis=2)
    for query, row in zip(bits[:5], distances, strict=True):
        found = algorithm.query(query, 10)
        np.testing.assert_array_equal(row[found], np.sort(row)[:10])
    algorithm.batch_query(bits[:5], 10)
    assert np.asarray(algorithm.get_batch_results()).shape == (5, 10)


def test_metrics_that_are_not_served_are_refused(checkout):
    module = importlib.import_module("ann_benchmarks.algorithms.sghash.module")
    with pytest.raises(NotImplementedError, match="jaccard"):
        module.Sghash("jaccard", 64)
