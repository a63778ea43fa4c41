"""A stream that is made block by block, searched as one array would be, and gone on with."""

from __future__ import annotations

import numpy as np
import pytest

import sghash
from sghash.experiments.claims import streamed_recall
from sghash.experiments.experiment import Context
from sghash.experiments.streams import DEPTH, Found, PerturbedStream, search_stream
from sghash.kernels import exact_neighbors, hamming_neighbors


@pytest.fixture
def stream(rng):
    base = rng.integers(0, 200, size=(50, 16)).astype(np.uint8)
    return PerturbedStream(base, 1000, 300)


def whole(stream):
    return np.concatenate([block for _, block in stream.blocks()])


def lsh(stream, seed=0):
    return sghash.models.LSH(n_bits=12, random_state=seed).fit(whole(stream))


def test_the_stream_is_the_same_every_time(stream):
    rows = whole(stream)
    assert rows.shape == (1000, 16) and rows.min() >= 0 and rows.max() <= 255
    np.testing.assert_array_equal(stream.block(1), rows[300:600])
    np.testing.assert_array_equal(rows, np.rint(rows))
    assert [first for first, _ in stream.blocks(2)] == [600, 900]
    assert list(stream.blocks(4)) == []


def test_a_stream_is_searched_as_one_array(stream, tmp_path):
    rows, model, queries = whole(stream), lsh(stream), stream.base[:7].astype(np.float32)
    found = search_stream(Context(tmp_path), stream, queries, {"LSH": model})
    np.testing.assert_array_equal(found.truth.ids, exact_neighbors(rows, queries, 10).ids)
    once = hamming_neighbors(model.encode(rows), model.encode(queries), DEPTH, n_bits=12)
    np.testing.assert_array_equal(found.codes["LSH"].ids, once.ids)


class Interrupted(PerturbedStream):
    """A stream that somebody stops before block 2."""

    def block(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return super().block(number)


class Counting(PerturbedStream):
    """A stream that counts the blocks it makes."""

    made = 0

    def block(self, number):
        self.made += 1
        return super().block(number)


def same(stream, kind):
    return kind(stream.base, stream.n_rows, stream.block_rows)


def test_an_interrupted_search_goes_on_where_it_was_kept(stream, tmp_path):
    models, queries = {"LSH": lsh(stream)}, stream.base[:7].astype(np.float32)
    once = search_stream(Context(tmp_path), stream, queries, models)
    kept = tmp_path / "below" / "kept.npz"

    def search(kind, models, **options):
        return search_stream(
            Context(tmp_path), same(stream, kind), queries, models, kept=kept, **options
        )

    with pytest.raises(KeyboardInterrupt):
        search(Interrupted, models, keep_seconds=0.0)
    asked = same(stream, Counting)
    again = search_stream(Context(tmp_path), asked, queries, models, kept=kept)
    assert asked.made == 2
    np.testing.assert_array_equal(again.truth.ids, once.truth.ids)
    np.testing.assert_array_equal(again.codes["LSH"].ids, once.codes["LSH"].ids)
    np.testing.assert_array_equal(again.codes["LSH"].distances, once.codes["LSH"].distances)


def test_what_other_models_found_is_not_gone_on_with(stream, tmp_path):
    queries, kept = stream.base[:7].astype(np.float32), tmp_path / "kept.npz"
    with pytest.raises(KeyboardInterrupt):
        search_stream(
            Context(tmp_path), same(stream, Interrupted), queries, {"LSH": lsh(stream)},
            kept=kept, keep_seconds=0.0,
        )  # fmt: skip
    asked = same(stream, Counting)
    search_stream(Context(tmp_path), asked, queries, {"LSH": lsh(stream, seed=1)}, kept=kept)
    assert asked.made == 4
    kept.write_bytes(kept.read_bytes()[:-30])
    assert Found.load(kept, {}).n_blocks == 0


def test_the_claim_runs_seeds_lengths_and_a_stream_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed_recall, "MODELS", ("ITQ", "LSH"))
    context = Context(tmp_path, quick=True, seeds=2, stream_rows=20_000)
    rows = streamed_recall.run(context)
    places = [
        (r["settings"]["model"], r["settings"]["n_bits"], r["settings"]["seed"]) for r in rows
    ]
    assert places == [(m, 16, s) for m in ("ITQ", "LSH") for s in (0, 1)]
    assert {row["settings"]["n_rows"] for row in rows} == {20_000}
    assert all(0 < row["values"]["recall10@1000"] <= 1 for row in rows)
    # Another seed is another model; and nothing is left beside the rows.
    assert rows[2]["values"] != rows[3]["values"]
    assert [path.name for path in tmp_path.iterdir()] == ["streamed_recall.jsonl"]
