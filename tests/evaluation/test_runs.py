"""Runs become rows: complete, repeatable, resumed after any interruption."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sghash.data.builtin import clusters
from sghash.errors import InvalidInput, SghashError
from sghash.evaluation import (
    METRICS,
    Bench,
    Run,
    RunProgress,
    read_rows,
    run_all,
    run_once,
    runs as runs_module,
    searching,
)
from sghash.evaluation.specs import ModelSpec, build_model, format_model, parse_model
from sghash.models import LSH
from sghash.validation import METRICS as METRICS_OF_VECTORS

RUNS = [Run("LSH", bits, seed) for bits in (8, 20) for seed in (0, 1)]
TIMES = ("train_seconds", "encode_seconds", "search_seconds", "queries_per_second")


@pytest.fixture(scope="module")
def bench() -> Bench:
    data = clusters(n_vectors=600, width=12, n_queries=40, n_clusters=5)
    return Bench(data, k=5, depths=(50, 5), threads=1)


def lasting(row: dict) -> dict:
    """A row without what may differ from run to run."""
    values = {name: value for name, value in row["values"].items() if name not in TIMES}
    return {**row, "values": values, "written": None, "format_version": None}


def test_a_row_says_everything(bench: Bench) -> None:
    row = run_once(Run("LSH", 20, 3, {"center": False}), bench)
    assert json.loads(json.dumps(row)) == row
    settings = row["settings"]
    assert (settings["model"], settings["seed"], settings["n_bits"]) == ("LSH", 3, 20)
    assert settings["options"] == {"n_bits": 20, "center": False, "random_state": 3}
    assert settings["asked"] == {"center": False}
    assert settings["checksum"] == bench.data.checksum and settings["metric"] == "l2"
    assert (settings["n_vectors"], settings["width"], settings["n_queries"]) == (600, 12, 40)
    assert settings["k"] == 5 and settings["depths"] == [5, 50]
    assert {"python", "sghash", "numpy", "numba"} <= set(row["versions"])
    assert "revision" in row and row["machine"]["cores"] >= 1
    values = row["values"]
    for name in ("recall5@5", "recall5@50", "expected_recall5@50", "average_precision5@50"):
        assert 0 <= values[name] <= 1
    assert values["recall5@5"] <= values["recall5@50"]
    assert values["bytes_per_vector"] == 3 and 0 < values["bits_in_use"] <= 20
    assert "label_average_precision@50" in values
    assert "reconstruction_error" not in values, "LSH cannot decode"
    named = {name.rstrip("0123456789@") for name in values} - set(TIMES)
    assert named <= set(METRICS)


def test_values_are_those_of_the_plain_computation(bench: Bench) -> None:
    run = Run("LSH", 20, 0)
    row = run_once(run, bench)
    model = build_model(run, "l2").fit(bench.base)
    base, queries = model.transform(bench.base), model.transform(bench.queries)
    far = (base[None] != queries[:, None]).sum(axis=2)
    retrieved = np.argsort(far, axis=1, kind="stable")[:, :50]
    squared = ((bench.queries[:, None].astype(float) - bench.base[None]) ** 2).sum(axis=2)
    true = np.argsort(squared, axis=1, kind="stable")[:, :5]
    recall = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(retrieved, true, strict=True)])
    assert row["values"]["recall5@50"] == pytest.approx(recall)


def test_models_that_decode_are_measured_on_unseen_rows(bench: Bench) -> None:
    row = run_once(Run("ITQ", 8, 0), bench)
    model = build_model(Run("ITQ", 8, 0), "l2").fit(bench.base)
    decoded = model.decode(model.encode(bench.queries))
    error = ((bench.queries - decoded) ** 2).sum(axis=1).mean()
    assert row["values"]["reconstruction_error"] == pytest.approx(error, rel=1e-5)
    assert {"unexplained_variance", "description_length"} <= set(row["values"])


def test_the_same_run_gives_the_same_values(bench: Bench) -> None:
    assert lasting(run_once(RUNS[2], bench)) == lasting(run_once(RUNS[2], bench))
    other = run_once(RUNS[3], bench)
    assert lasting(other)["values"] != lasting(run_once(RUNS[2], bench))["values"]


class Interrupted(BaseException):
    pass


def test_an_interrupted_call_is_resumed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    whole = run_all(RUNS, bench)

    def stop(progress: RunProgress) -> None:
        if progress.done == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        run_all(RUNS, bench, rows=path, callback=stop)
    assert len(read_rows(path)) == 2
    # The power failed in the middle of writing a third row.
    with open(path, "ab") as stream:
        stream.write(b'{"format_version": 1, "key": "')
    done = []
    real = runs_module.run_once
    monkeypatch.setattr(runs_module, "run_once", lambda *a: done.append(a[0]) or real(*a))
    resumed = run_all(RUNS, bench, rows=path)
    assert done == RUNS[2:]
    assert [lasting(row) for row in resumed] == [lasting(row) for row in whole]
    assert len(read_rows(path)) == 4
    done.clear()
    assert run_all(RUNS, bench, rows=path)[0]["key"] == whole[0]["key"]
    assert done == []


def test_other_data_options_or_depths_are_other_rows(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    run = Run("LSH", 8, 0)
    other = clusters(n_vectors=600, width=12, n_queries=40, n_clusters=5, random_state=1)
    run_all([run], bench, rows=path)
    run_all([run._replace(options={"center": False})], bench, rows=path)
    run_all([run], Bench(other, k=5, depths=(5, 50), threads=1), rows=path)
    run_all([run], Bench(bench.data, k=5, depths=(5,), threads=1), rows=path)
    run_all([run], Bench(bench.data, k=4, depths=(5, 50), threads=1), rows=path)
    assert len({row["key"] for row in read_rows(path)}) == 5


def test_progress_tells_the_time_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(runs_module.time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(runs_module, "run_once", lambda run, bench: {"key": "x"})
    seen: list[RunProgress] = []
    run_all(RUNS, bench, callback=seen.append)
    assert [step.done for step in seen] == [0, 1, 2, 3, 4]
    assert all(step.total == 4 for step in seen)
    assert seen[0].following == "LSH 8 bits, seed 0" and seen[0].seconds_left is None
    # 20 seconds passed for one of four runs: three times as much is left.
    assert seen[1].seconds == 20 and seen[1].seconds_left == 60
    assert seen[-1].seconds_left == 0


def test_models_are_built_as_asked() -> None:
    assert build_model(Run("LSH", 9, 4), "ip").get_params() == {
        "n_bits": 9,
        "center": True,
        "random_state": 4,
    }
    with pytest.raises(InvalidInput, match="no model 'Nothing'"):
        build_model(Run("Nothing", 8, 0), "l2")
    with pytest.raises(InvalidInput, match="no preset 'paper'"):
        build_model(Run("LSH.paper", 8, 0), "l2")
    for method in ("load", "get_params", "from_saved_options", "__new__"):
        with pytest.raises(InvalidInput, match=r"no preset.*use one of paper, authors_script"):
            build_model(Run(f"SGH.{method}", 8, 0), "l2")
    with pytest.raises(InvalidInput, match="LSH has no option depth: it has center, random_state"):
        build_model(Run("LSH", 8, 0, {"depth": 3}), "l2")
    with pytest.raises(InvalidInput, match="n_bits"):
        build_model(Run("LSH", 0, 0), "l2")


def test_options_of_a_recipe_are_options() -> None:
    name, options = parse_model("SGH(recipe__init='pca', neighbors=10)")
    model = build_model(Run(name, 8, 0, options), "l2")
    assert model.recipe.init == "pca" and model.neighbors == 10 and model.n_bits == 8
    assert build_model(Run("SGH.paper", 8, 0, {"recipe__n_passes": 2}), "l2").n_steps is None
    for name, options, word in (
        ("SGH", {"recipe__nope": 1}, "a recipe has no nope"),
        ("SGH.paper", {"recipe__init": "pca"}, "a preset takes no recipe__init"),
        ("LSH", {"recipe__init": "pca"}, "does not take these options"),
        ("SGH", {"schedule": "cosine"}, "SGH has no option schedule: give it as recipe__schedule"),
    ):
        with pytest.raises(InvalidInput, match=word):
            build_model(Run(name, 8, 0, options), "l2")


def test_models_that_know_metrics_are_told() -> None:
    assert build_model(Run("SGH", 8, 0), "cosine").metric == "cosine"
    paper = build_model(Run("SGH.paper", 8, 1), "ip")
    assert paper.metric == "ip" and paper.random_state == 1 and paper.coding == "binary"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("LSH", ModelSpec("LSH", {})),
        ("SGH.paper", ModelSpec("SGH.paper", {})),
        ("LSH( center = False )", ModelSpec("LSH", {"center": False})),
        ("SGH.paper(n_steps=10)", ModelSpec("SGH.paper", {"n_steps": 10})),
        ("SGH(recipe__init='pca')", ModelSpec("SGH", {"recipe__init": "pca"})),
        ("SGH(kl_weight=(1.0, 0.0))", ModelSpec("SGH", {"kl_weight": [1.0, 0.0]})),
    ],
)
def test_models_as_text(text: str, spec: ModelSpec) -> None:
    assert parse_model(text) == spec
    assert parse_model(format_model(*spec)) == spec


@pytest.mark.parametrize(
    "text", ["", "LSH(", "LSH(1)", "LSH(**{})", "a.b.c", "LSH(x=open('f'))", "1 + 1", "f(x)(y)"]
)
def test_text_that_is_no_model(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected a model"):
        parse_model(text)


def test_what_compiles_is_not_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list = []

    def searched(codes, query_codes, *arguments, **options):  # type: ignore[no-untyped-def]
        called.append(("search", len(codes), len(query_codes)))
        return hamming_neighbors(codes, query_codes, *arguments, **options)

    def encoded(model, vectors):  # type: ignore[no-untyped-def]
        called.append(("encode", len(vectors)))
        return encode(model, vectors)

    encode, hamming_neighbors = LSH.encode, runs_module.hamming_neighbors
    monkeypatch.setattr(runs_module, "hamming_neighbors", searched)
    monkeypatch.setattr(LSH, "encode", encoded)
    run_once(Run("LSH", 16, 0), bench)
    # The number of queries chooses the kernel: the call for nothing has as many.
    assert called == [("encode", 40), ("encode", 600), ("search", 64, 40), ("search", 600, 40)]


def test_depths_must_exist() -> None:
    data = clusters(n_vectors=30, width=4, n_queries=3)
    for depths in ((), (31,), (0,)):
        with pytest.raises(InvalidInput, match="depths"):
            Bench(data, depths=depths)


def test_large_data_stays_in_its_source(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr("sghash.evaluation.bench.MAX_BYTES", 100)

    source = bench.data.base.rows(0)
    outside = Bench(replace(bench.data, base=source), k=5, depths=(5, 50), threads=1)
    assert outside.base is source
    run = Run("LSH", 20, 0)
    first, second = run_once(run, bench), run_once(run, outside)
    assert first["key"] == second["key"] and lasting(first) == lasting(second)


def test_quantizers_are_searched_by_their_tables(bench: Bench) -> None:
    """As by distances to what their codes stand for, all of them computed."""
    row = run_once(Run("ProductQuantizer", 16, 0), bench)
    model = build_model(Run("ProductQuantizer", 16, 0), "l2").fit(bench.base)
    assert model.n_parts == 2 and row["values"]["bytes_per_vector"] == 2
    decoded = model.decode(model.encode(bench.base)).astype(float)
    far = ((bench.queries[:, None] - decoded[None]) ** 2).sum(axis=2)
    retrieved = np.argsort(far, axis=1, kind="stable")[:, :50]
    squared = ((bench.queries[:, None].astype(float) - bench.base[None]) ** 2).sum(axis=2)
    true = np.argsort(squared, axis=1, kind="stable")[:, :5]
    recall = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(retrieved, true, strict=True)])
    assert row["values"]["recall5@50"] == pytest.approx(recall, abs=0.02)
    error = ((bench.queries - model.decode(model.encode(bench.queries))) ** 2).sum(axis=1).mean()
    assert row["values"]["reconstruction_error"] == pytest.approx(error, rel=1e-5)
    # What is defined for bits alone is left out.
    assert not {"bits_in_use", "description_length", "expected_recall5@5"} & set(row["values"])


def test_more_queries_than_tables_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("ProductQuantizer", 16, 0, {"n_iterations": 2})
    whole = run_once(run, bench)
    monkeypatch.setattr(searching, "_QUERIES_AT_ONCE", 7)
    assert lasting(run_once(run, bench)) == lasting(whole)


def test_a_quantizer_is_given_the_metric_of_the_data() -> None:
    data = clusters(n_vectors=300, width=8, n_queries=20, n_clusters=5)
    for metric in METRICS_OF_VECTORS:
        bench = Bench(replace(data, metric=metric), k=5, depths=(50,), threads=1)
        row = run_once(Run("GenerativeQuantizer", 16, 0, {"n_rounds": 1}), bench)
        assert row["settings"]["options"]["metric"] == metric and row["values"]["recall5@50"] > 0.5


@pytest.mark.parametrize(
    ("run", "metric", "said"),
    [
        (Run("ProductQuantizer", 20, 0), "l2", "multiple of 8 bits, got 20"),
        (Run("GenerativeQuantizer", 8, 0), "l2", "have 16 to 256 bits, got 8"),
        (Run("PCAReconstruction", 32, 0), "l2", "makes numbers, not codes"),
        (Run("ProductQuantizer", 16, 0), "cosine", "tables cannot score cosine"),
        (Run("ITQ", 16, 0, {"n_bits": 8}), "l2", "not by the option n_bits"),
        (Run("ProductQuantizer", 16, 0, {"n_parts": 1}), "l2", "not by the option n_parts"),
        (Run("DeepSGH", 16, 0), "l2", r"pip install .*\[torch\]'"),
    ],
    ids=lambda value: getattr(value, "model", value),
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    run: Run, metric: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    data = clusters(n_vectors=60, width=4, n_queries=5, n_clusters=2)
    bench = Bench(replace(data, metric=metric), k=5, depths=(5,), threads=1)
    done: list[Run] = []
    monkeypatch.setattr(runs_module, "run_once", lambda run, bench: done.append(run))
    with pytest.raises(SghashError, match=said):
        run_all([Run("LSH", 8, 0), run], bench)
    assert not done
