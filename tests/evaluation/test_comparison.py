"""`evaluate`: a table for any vectors, and the shortest code that reaches the wanted recall."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sghash.data import convert
from sghash.data.builtin import clusters
from sghash.data.sources import ArraySource
from sghash.errors import InvalidDtype, InvalidInput
from sghash.evaluation import evaluate, hold_out, read_rows
from sghash.evaluation.comparison import _shorten
from sghash.evaluation.holdout import WithoutRows

SMALL = {"models": ("LSH",), "n_bits": (8, 32), "target_recall": None, "threads": 1}


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.asarray(clusters(n_vectors=800, width=16, n_queries=1).base)


@pytest.mark.slow
def test_a_table_for_any_vectors(vectors: np.ndarray, tmp_path: Path) -> None:
    models = ("LSH", "LSH( center=False )")
    found = evaluate(vectors, models=models, n_bits=(32, 8), wanted_recall=2, threads=1)
    assert [(r["model"], r["n_bits"]) for r in found.records()][:2] == [("LSH", 8), ("LSH", 32)]
    assert "LSH(center=False)" in found.shortest
    first = found.rows[0]["settings"]
    # 80 of 800 were set aside; depths end where the vectors end.
    assert (first["n_vectors"], first["n_queries"], first["depths"]) == (720, 80, [10, 100])
    assert json.loads(json.dumps(found.records())) == found.records()
    text = found.text()
    heading = " ".join(text.splitlines()[0].split())
    assert heading == "model bits bytes recall10@10 recall10@100 train s encode/s queries/s"
    assert "RecallK@N: the fraction" in text and "(64 bytes as float32)" in text
    assert found.text(markdown=True).startswith("| model")
    assert max(map(len, text.splitlines())) <= 96 and "\nqueries/s: Queries answered" in text


@pytest.mark.slow
def test_progress_tells_why_more_lengths_are_tried(vectors: np.ndarray) -> None:
    told: list = []
    evaluate(vectors, wanted_recall=0.3, models=("LSH",), n_bits=(32,), callback=told.append)
    assert [news.following for news in told[:2]] == ["LSH 32 bits, seed 0", ""]
    assert told[2].following == "LSH 16 bits, seed 0, to find the shortest"


def test_too_few_vectors_are_refused(vectors: np.ndarray) -> None:
    for n, reason in ((1, "there is only 1: give more"), (10, "9 vectors are left to search")):
        with pytest.raises(InvalidInput, match=reason):
            evaluate(vectors[:n], **SMALL)


def test_files_and_arrays_give_the_same(vectors: np.ndarray, tmp_path: Path) -> None:
    source = convert(vectors, tmp_path / "v.fbin")
    one = evaluate(vectors, wanted_recall=2.0, **SMALL)
    two = evaluate(source, wanted_recall=2.0, **SMALL)
    assert [row["key"] for row in one.rows] == [row["key"] for row in two.rows]
    assert [row["values"]["recall10@10"] for row in one.rows] == [
        row["values"]["recall10@10"] for row in two.rows
    ]


def test_queries_of_ones_own(vectors: np.ndarray, tmp_path: Path) -> None:
    found = evaluate(vectors[:700], vectors[700:], depths=(5,), k=3, metric="cosine", **SMALL)
    assert found.rows[0]["settings"]["n_queries"] == 100
    assert found.rows[0]["settings"]["metric"] == "cosine"
    assert found.wanted == ("recall3@100", 0.9) and found.rows[0]["settings"]["depths"] == [5, 100]
    source = convert(vectors[700:], tmp_path / "q.npy")
    same = evaluate(ArraySource(vectors[:700]), source, depths=(5,), k=3, metric="cosine", **SMALL)
    assert same.rows[0]["key"] == found.rows[0]["key"]
    with pytest.raises(InvalidInput, match="columns"):
        evaluate(vectors, vectors[:, :3], **SMALL)


def test_a_data_set_brings_queries_and_metric() -> None:
    data = clusters(n_vectors=300, width=8, n_queries=20)
    found = evaluate(data, **SMALL)
    assert found.rows[0]["settings"]["dataset"] == "clusters"
    assert found.rows[0]["settings"]["n_queries"] == 20
    with pytest.raises(InvalidInput, match="own queries"):
        evaluate(data, np.ones((2, 8)), **SMALL)


def test_rows_are_kept_and_not_measured_again(vectors: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = evaluate(vectors, rows=path, seeds=(0, 1), wanted_recall=0.5, **SMALL)
    n_rows = len(read_rows(path))
    seen: list[int] = []
    second = evaluate(
        vectors,
        rows=path,
        seeds=(0, 1),
        wanted_recall=0.5,
        callback=lambda step: seen.append(step.total),
        **SMALL,
    )
    assert set(seen) == {0} and len(read_rows(path)) == n_rows
    assert second.shortest == first.shortest and second.text() == first.text()
    assert "±" in first.text()


@pytest.mark.parametrize(
    ("lengths", "needed"), [((8, 64), 41), ((64,), 41), ((8, 64), 8), ((8,), 9)]
)
def test_the_shortest_code_is_found_by_halving(lengths: tuple[int, ...], needed: int) -> None:
    tried: list[int] = []

    def run(texts: list[str], n_bits: list[int]) -> list[dict]:
        tried.extend(n_bits)
        return [
            {
                "settings": {
                    **dict.fromkeys(("dataset", "checksum", "metric", "k"), "same"),
                    "model": texts[0],
                    "asked": {},
                    "n_bits": length,
                    "seed": 0,
                },
                "values": {"recall": float(length >= needed)},
            }
            for length in n_bits
        ]

    rows = run(["LSH"], list(lengths))
    best, more = _shorten("LSH", rows, "recall", 0.9, run)
    if max(lengths) < needed:
        assert best is None and not more
    else:
        assert best == -(-needed // 8) * 8
        assert len(tried) == len(set(tried)) and all(length % 8 == 0 for length in tried)
        assert len(more) <= 3


def test_no_code_is_tried_that_a_model_cannot_have(vectors: np.ndarray) -> None:
    spec = "GenerativeQuantizer(n_rounds=1)"
    few = {"n_bits": (24,), "wanted_recall": 0.1, "target_recall": None, "threads": 1}
    found = evaluate(vectors[:150], models=(spec,), **few)
    # Every length is enough here, and the length of the vector takes a byte of its own.
    assert found.shortest == {spec: 16}


def test_no_code_is_long_enough(vectors: np.ndarray) -> None:
    found = evaluate(vectors, wanted_recall=1.5, **SMALL)
    assert found.shortest == {"LSH": None}
    assert "No code reaches recall10@100 of 1.5" in found.text()


def test_nothing_to_do_is_refused(vectors: np.ndarray) -> None:
    for changes in ({"models": ()}, {"n_bits": ()}, {"seeds": ()}):
        with pytest.raises(InvalidInput, match="at least one"):
            evaluate(vectors, **{**SMALL, **changes})
    with pytest.raises(InvalidInput, match="metric"):
        evaluate(vectors, metric="l1", **SMALL)


def test_queries_are_taken_out(rng: np.random.Generator) -> None:
    array = rng.standard_normal((50, 3))
    base, queries = hold_out(array, 12, random_state=4)
    assert base.shape == (38, 3) and queries.shape == (12, 3)
    both = np.concatenate([np.asarray(base), queries])
    assert np.array_equal(np.sort(both, axis=0), np.sort(array, axis=0))
    source_base, source_queries = hold_out(ArraySource(array), 12, random_state=4)
    assert np.array_equal(np.asarray(source_base), np.asarray(base))
    assert np.array_equal(source_queries, queries)
    for n_queries in (0, 26):
        with pytest.raises(InvalidInput, match="between 1 and 25"):
            hold_out(array, n_queries)


@pytest.mark.parametrize("removed", [[0], [9], [0, 1, 2], [7, 8, 9], [2, 5, 6], list(range(9))])
def test_every_range_without_some_rows(removed: list[int]) -> None:
    array = np.arange(20.0).reshape(10, 2)
    source = WithoutRows(ArraySource(array), np.array(removed))
    expected = np.delete(array, removed, axis=0)
    n = len(expected)
    for start in range(n):
        for stop in range(start, n + 1):
            assert np.array_equal(source.read(start, stop), expected[start:stop])


@pytest.mark.slow
def test_pipelines_are_judged_and_the_cheapest_is_recommended(vectors: np.ndarray) -> None:
    found = evaluate(vectors, models=("SGH", "ITQ"), n_bits=(16, 32), wanted_recall=2, threads=1)
    stages = {one.stage for one in found.pipelines}
    assert stages == {"codes", "decoder", "int4 vectors", "int8 vectors", "float16 vectors"}
    chosen = found.recommended
    assert chosen is not None and chosen.recall >= 0.95
    cheaper = [one for one in found.pipelines if one.n_bytes < chosen.n_bytes]
    assert cheaper and all(one.recall < 0.95 for one in cheaper)
    text = found.text()
    assert "Cheapest pipeline with recall10@10 of at least 0.95 (*)" in text
    exact = [one for one in found.pipelines if one.stage == "float16 vectors"]
    assert min(one.recall for one in exact) > 0.97
    one = {"n_bits": np.int64(8), "seeds": np.int64(0)}
    alone = evaluate(vectors, models="LSH", **one, target_recall=None, threads=1)
    assert alone.pipelines == [] and alone.recommended is None


def test_a_target_that_no_pipeline_reaches_is_said(vectors: np.ndarray) -> None:
    from sghash.evaluation.pipelines import PipelineResult, pipeline_lines

    weak = PipelineResult("LSH", 8, "codes", 0.2, 1.0, 0.1, 0, 0.5)
    assert "No pipeline reaches" in " ".join(pipeline_lines([weak], 10, 0.95))


def test_a_bar_is_shown_for_the_word(
    vectors: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(vectors, callback="bar", **SMALL)
    assert "LSH 8 bits" in capsys.readouterr().err
    with pytest.raises(InvalidDtype, match="callback"):
        evaluate(vectors, callback=3, **SMALL)
