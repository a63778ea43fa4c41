"""Metrics against cases computed by hand, and against enumeration of every way to break ties."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash.bits import pack_bits
from sghash.errors import InvalidInput
from sghash.evaluation import METRICS, definitions, metrics as m
from sghash.evaluation.ties import boundary_of, true_code_distances
from sghash.kernels.reference import hamming_neighbors
from sghash.neighbors import Neighbors

TRUTH = np.array([[0, 1, 2], [5, 6, 7]])
# The first query finds 0 and 1 at ranks 1 and 3, the second finds 7 at rank 4.
RETRIEVED = np.array([[0, 9, 1, 8], [1, 2, 3, 7]])


def test_recall_by_hand() -> None:
    assert m.recall(TRUTH, RETRIEVED, k=3, n=4) == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert m.recall(TRUTH, RETRIEVED, k=3, n=2) == pytest.approx((1 / 3 + 0) / 2)
    assert m.recall(TRUTH[:, :1], RETRIEVED, k=1, n=1) == 0.5
    assert m.recall(TRUTH, TRUTH, k=3, n=3) == 1.0


def test_precision_by_hand() -> None:
    assert m.precision(TRUTH, RETRIEVED, k=3, n=4) == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert m.precision(TRUTH, RETRIEVED, k=3, n=1) == 0.5


def test_average_precision_by_hand() -> None:
    # First query: precision 1/1 at rank 1 and 2/3 at rank 3; second: 1/4 at rank 4; K = 3.
    expected = ((1 + 2 / 3) / 3 + (1 / 4) / 3) / 2
    assert m.average_precision(TRUTH, RETRIEVED, k=3, n=4) == pytest.approx(expected)
    assert m.average_precision(TRUTH, TRUTH, k=3, n=3) == pytest.approx(1.0)


def test_label_average_precision_by_hand() -> None:
    labels = np.array([0, 1, 0, 1, 1])
    retrieved = np.array([[0, 1, 2], [0, 2, 3], [1, 3, 4]])
    queries = np.array([0, 1, 0])
    # Right at ranks 1 and 3: (1 + 2/3) / 2; right at rank 3: (1/3) / 1; never right: 0.
    expected = ((1 + 2 / 3) / 2 + 1 / 3 + 0) / 3
    assert m.label_average_precision(labels, queries, retrieved, n=3) == pytest.approx(expected)


def test_rows_tied_with_the_last_true_neighbour_count() -> None:
    truth = np.array([[4, 3, 9, 8]])  # k = 2; 9 and 8 are as near as 3
    assert m.recall(truth, [[4, 8, 0]], k=2, n=2) == 1.0
    assert m.recall(truth, [[9, 8, 3]], k=2, n=3) == 1.0  # two at most
    assert m.precision(truth, [[9, 8, 3]], k=2, n=3) == pytest.approx(2 / 3)
    assert m.average_precision(truth, [[9, 8, 3]], k=2, n=3) == pytest.approx(1.0)


def test_padding_is_never_a_hit() -> None:
    truth = np.array([[4, -1, -1]])
    assert m.recall(truth, [[-1, -1, -1]], k=1, n=3) == 0.0
    retrieved = np.array([[0, -1]])
    assert m.label_average_precision([1, 1], [1], retrieved, n=2) == 1.0


def test_reconstruction_by_hand() -> None:
    vectors = np.array([[0.0, 0.0], [2.0, 0.0]])
    decoded = np.array([[1.0, 1.0], [2.0, 1.0]])
    assert m.reconstruction_error(vectors, decoded) == pytest.approx((2 + 1) / 2)
    # Each vector is 1 away from the mean (1, 0).
    assert m.unexplained_variance(vectors, decoded) == pytest.approx(1.5)
    assert m.unexplained_variance(vectors, np.array([[1.0, 0.0]] * 2)) == pytest.approx(1.0)
    with pytest.raises(InvalidInput, match="all equal"):
        m.unexplained_variance(np.ones((2, 2)), decoded)


def test_bits_in_use_by_hand() -> None:
    bits = np.array([[1, 1, 0, 1], [0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=bool)
    quarter = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    assert m.bits_in_use(bits) == pytest.approx(1 + 0 + 0 + quarter)


def test_description_length_by_hand() -> None:
    bits = np.array([[1], [0]], dtype=bool)
    vectors = np.array([[0.0, 0.0], [2.0, 0.0]])
    decoded = vectors + 0.5
    # One balanced bit, and noise of variance 1/4 in two coordinates.
    expected = 1 + 2 / 2 * np.log2(2 * np.pi * np.e * 0.25)
    assert m.description_length(bits, vectors, decoded) == pytest.approx(expected)
    with pytest.raises(InvalidInput, match="without any error"):
        m.description_length(bits, vectors, vectors)


def test_rates_by_hand() -> None:
    assert m.queries_per_second(100, 0.5) == 200
    assert m.bytes_per_vector(np.zeros((7, 3), np.uint8)) == 3


def enumerated_recall(
    truth: Neighbors, codes: np.ndarray, query: np.ndarray, k: int, n: int
) -> float:
    """The mean over all orders of equally near rows, in the truth and in the codes."""
    order = range(len(codes))
    far = (codes != query).sum(axis=1)
    found = []
    true_far = dict(zip(truth.ids[0].tolist(), truth.distances[0].tolist(), strict=True))
    for shuffled in permutations(order):
        rank = {row: place for place, row in enumerate(shuffled)}
        retrieved = sorted(order, key=lambda row: (far[row], rank[row]))[:n]
        true = sorted(
            (row for row in true_far if row >= 0), key=lambda row: (true_far[row], -rank[row])
        )[:k]
        found.append(len(set(retrieved) & set(true)) / k)
    return float(np.mean(found))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), n=st.integers(1, 5))
def test_expected_recall_is_the_mean_over_all_orders(seed: int, k: int, n: int) -> None:
    """True ranks are drawn without ties here: then the two orders are independent and exact."""
    rng = np.random.default_rng(seed)
    bits = rng.random((6, 3)) < 0.5
    query = rng.random((1, 3)) < 0.5
    ids = rng.permutation(6)[None, :k]
    truth = Neighbors(np.arange(k, dtype=np.float32)[None], ids)
    codes, query_codes = pack_bits(bits), pack_bits(query)
    for depth in (n, 6):  # the list ends at n, or goes on behind it
        found = hamming_neighbors(codes, query_codes, depth, n_bits=3)
        edge = boundary_of(found, codes, query_codes, n)
        expected = m.expected_recall(
            truth, true_code_distances(truth, codes, query_codes), *edge, k=k, n=n
        )
        assert expected == pytest.approx(enumerated_recall(truth, bits, query[0], k, n))


def test_expected_recall_with_tied_truth_by_hand() -> None:
    # K = 2: row 0 is nearest, rows 1 and 2 share the second place, each with weight 1/2.
    truth = Neighbors(np.array([[1.0, 2.0, 2.0]], np.float32), np.array([[0, 1, 2]]))
    # Codes: row 0 at distance 0, rows 1, 3 and 4 at distance 1, row 2 at distance 2.
    far = np.array([[0, 1, 2]])
    # N = 2: one place for three rows at distance 1.
    value = m.expected_recall(truth, far, [1], [1], [3], k=2, n=2)
    assert value == pytest.approx((1 + 0.5 * (1 / 3)) / 2)


@pytest.mark.parametrize("n_bits", [5, 64, 70, 192, 300])
def test_boundary_counts_over_all_codes(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, n_bits: int
) -> None:
    monkeypatch.setattr("sghash.evaluation.ties._BLOCK", 64)
    bits = rng.random((300, n_bits)) < 0.5
    queries = rng.random((5, n_bits)) < 0.5
    queries[0] = ~bits[0]  # as far as codes can be apart
    codes, query_codes = pack_bits(bits), pack_bits(queries)
    found = hamming_neighbors(codes, query_codes, 20, n_bits=n_bits)
    far = (bits[None] != queries[:, None]).sum(axis=2)
    for n in (1, 7, 20):
        edge = boundary_of(found, codes, query_codes, n)
        limit = np.sort(far, axis=1)[:, n - 1]
        assert edge.distance.tolist() == limit.tolist()
        assert edge.n_nearer.tolist() == (far < limit[:, None]).sum(axis=1).tolist()
        assert edge.n_tied.tolist() == (far == limit[:, None]).sum(axis=1).tolist()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="search with k >= 5"):
        m.recall(TRUTH, RETRIEVED, k=3, n=5)
    with pytest.raises(InvalidInput, match="k = 4"):
        m.recall(TRUTH, RETRIEVED, k=4, n=2)
    with pytest.raises(InvalidInput, match="ground truth has shape"):
        m.recall(TRUTH[:1], RETRIEVED, k=3, n=2)


def test_blocks_of_queries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    truth, retrieved = rng.integers(0, 50, (100, 5)), rng.integers(0, 50, (100, 20))
    whole = m.recall(truth, retrieved, k=5, n=20)
    monkeypatch.setattr(m, "_BLOCK_QUERIES", 7)
    assert m.recall(truth, retrieved, k=5, n=20) == whole


def test_every_metric_is_defined_where_it_is_reported() -> None:
    for name, metric in METRICS.items():
        assert metric.better in ("higher", "lower")
        assert metric.measure.__name__ == name
        assert len(metric.definition) > 20
    text = definitions(["recall10@100", "label_average_precision@50", "train_seconds"])
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "recall",
        "label_average_precision",
    ]
