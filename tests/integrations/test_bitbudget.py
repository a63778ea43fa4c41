"""What we plug into benchmarks of others, run by the others' own code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sghash.data.builtin import clusters

bitbudget = pytest.importorskip("bitbudget")


@pytest.fixture(scope="module")
def plugin():
    path = Path(__file__).parents[2] / "integrations" / "bitbudget_sghash.py"
    spec = importlib.util.spec_from_file_location("bitbudget_sghash", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()
    return module


@pytest.fixture(scope="module")
def vectors():
    data = clusters(n_vectors=1000, width=64, n_queries=40)
    parts = (np.asarray(data.base), np.asarray(data.queries))
    return [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]


def test_methods_are_registered(plugin):
    assert {"sgh-hamming-8", "sgh-asymmetric-64"} <= set(bitbudget.list_methods())


@pytest.mark.slow
def test_bitbudget_judges_us_above_signs_of_as_many_bytes(plugin, vectors):
    methods = ["float32", "binary", "binary-mean", "sgh-hamming-8", "sgh-asymmetric-8"]
    rows = {row["method"]: row for row in plugin.judge(*vectors, methods)}
    assert rows["float32"]["ndcg"] == rows["float32"]["recall"] == 1.0
    assert rows["sgh-hamming-8"]["bytes"] == rows["binary"]["bytes"] == 8
    signs = max(rows[name]["recall"] for name in ("binary", "binary-mean"))
    assert rows["sgh-asymmetric-8"]["recall"] > signs + 0.05
    assert rows["sgh-hamming-8"]["recall"] > signs - 0.05


def test_vectors_from_a_file(plugin, vectors, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plugin, "judge", lambda d, q: [
        {"method": f"{len(d)}x{len(q)}", "bytes": 8.0, "ndcg": 0.5, "recall": 0.25}
    ])  # fmt: skip
    path = tmp_path / "vectors.npz"
    np.savez(path, demb=vectors[0], qemb=vectors[1])
    plugin.main(["vectors", str(path)])
    assert "1000x40" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="give one file"):
        plugin.main(["vectors"])
