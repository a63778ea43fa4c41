"""Who is ahead: what seeds and queries leave open is never called a difference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sghash.evaluation.summary import Estimate, estimate
from sghash.experiments import comparisons, standings
from sghash.experiments.by_query import KEPT, pack_shares, shares_of, unpack_shares
from sghash.experiments.claims.reconstruction import scaled_errors
from sghash.experiments.comparisons import Difference, Measured
from sghash.experiments.hashing import draws_nothing
from sghash.models import model_class

SURE, LESS = Estimate(0.5, 0.01, 5), Estimate(0.4, 0.01, 5)
ONCE = Estimate(0.4, None, 1)


def test_seeds_decide_where_queries_are_not_known():
    assert comparisons.lead(SURE, LESS) == 1 and comparisons.lead(LESS, SURE) == -1
    assert comparisons.lead(SURE, Estimate(0.499, 0.01, 5)) == 0
    assert comparisons.lead(SURE, LESS, least=0.2) == 0


def test_one_seed_says_nothing_unless_nothing_is_drawn():
    assert comparisons.lead(SURE, ONCE) == comparisons.lead(ONCE, SURE) == 0
    assert comparisons.lead(SURE, Measured(ONCE, is_fixed=True)) == 1
    assert comparisons.difference(SURE, ONCE).seeds is None


def test_two_seeds_say_nothing_either():
    twice = estimate([0.4, 0.4001])
    assert comparisons.lead(SURE, twice) == 0 and comparisons.difference(SURE, twice).seeds is None
    assert comparisons.lead(SURE, estimate([0.4, 0.4001, 0.4002])) == 1


def test_errors_of_seeds_and_of_queries_add():
    # Each alone leaves no doubt, both together do.
    gap = Difference(0.05, 0.04, (0.01, 0.09))
    assert gap.half == pytest.approx(np.hypot(0.04, 0.04)) and gap.half > gap.mean
    assert gap.chance > 0.05 and gap._replace(queries=None).chance < 0.05


@pytest.mark.parametrize("freedom", [2.5, 8.0, np.inf])
def test_the_chance_is_the_level_of_the_interval_that_ends_at_zero(freedom):
    stats = pytest.importorskip("scipy.stats")
    law = stats.norm() if np.isinf(freedom) else stats.t(freedom)
    gap = Difference(0.3, law.ppf(0.975) * 0.1, None, freedom)
    assert gap.chance == pytest.approx(2 * law.sf(3.0), rel=1e-6)
    assert gap._replace(mean=-0.3).chance == pytest.approx(gap.chance)
    assert Difference(0.0, 0.1, None).chance == Difference(9.0, None, None).chance == 1
    # At 0.05 chance and half-width say the same.
    edge = Difference(0.1, 0.08, (0.0, 0.12), freedom)
    assert edge._replace(mean=edge.half).chance == pytest.approx(0.05, rel=1e-6)


@given(
    chances=st.lists(st.floats(0, 1), min_size=1, max_size=9),
    level=st.floats(0.001, 0.5),
)
def test_chances_that_are_counted_in_tell_what_holm_keeps_step_by_step(chances, level):
    kept = set()
    for place, n in enumerate(sorted(range(len(chances)), key=lambda n: chances[n])):
        if min(1.0, (len(chances) - place) * chances[n]) > level:
            break
        kept.add(n)
    found = standings.counted_in(dict(enumerate(chances)))
    assert {n for n, chance in found.items() if chance <= level} == kept
    assert standings.holm(dict(enumerate(chances)), level) == kept
    assert all(found[n] >= chance for n, chance in enumerate(chances))


def test_wider_intervals_hold_more_often():
    gap = Difference(0.1, 0.08, (0.0, 0.12), 4.0)
    assert gap.half_at(0.05) == pytest.approx(gap.half)
    assert gap.half_at(gap.chance) == pytest.approx(gap.mean, rel=1e-6)
    assert gap.half_at(0.001) > gap.half > gap.half_at(0.2)
    assert gap._replace(seeds=None).half_at(0.05) is None


def test_the_interval_over_seeds_is_welchs():
    stats = pytest.importorskip("scipy.stats")
    one, other = [0.50, 0.52, 0.49, 0.53], [0.47, 0.50, 0.46]
    found = comparisons.difference(estimate(one), estimate(other))
    expected = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert found.mean - found.seeds == pytest.approx(expected.low)
    assert found.mean + found.seeds == pytest.approx(expected.high)


def _rows(numbers):
    return [
        {"settings": {"seed": seed}, "values": {"error": number}}
        for seed, number in enumerate(numbers)
    ]


def test_rows_of_one_seed_are_compared_with_each_other():
    stats = pytest.importorskip("scipy.stats")
    one, other = [0.50, 0.62, 0.39, 0.53], [0.48, 0.59, 0.38, 0.50]
    found = comparisons.paired(_rows(one), _rows(other)[::-1], "error")
    expected = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert found.mean - found.seeds == pytest.approx(expected.low)
    assert found.mean + found.seeds == pytest.approx(expected.high)
    assert found.chance == pytest.approx(stats.ttest_rel(one, other).pvalue, rel=1e-6)
    # What all seeds share, as a hard start, counts for nothing; Welch would not tell them apart.
    apart = comparisons.difference(estimate(one), estimate(other))
    assert found.seeds < apart.seeds / 5 and apart.chance > 0.5
    assert comparisons.paired(_rows(one[:2]), _rows(other[:2]), "error").seeds is None
    fixed = comparisons.paired(_rows(one[:1]), _rows(other[:1]), "error", fixed=lambda _: True)
    assert fixed.seeds == 0.0 and fixed.mean == pytest.approx(0.02)


def test_a_difference_that_counts_as_none_has_no_chance_in_the_table():
    sure = Estimate(0.5, 0.0001, 5)
    found = {("a", "we"): sure, ("a", "x"): sure._replace(mean=0.496)}
    judged = standings.judgements(found, "we", ["x"])
    assert [one.word for one in judged.values()] == [standings.EVEN]
    assert standings.deciding_rivals(judged, "we", "").cells[0][-3] == "difference up to 0.005"
    assert standings.judgements(found, "we", ["x"], least=0.0)[("a",)].word == standings.AHEAD


def test_queries_are_compared_in_pairs(rng):
    hard = rng.random(400)  # queries differ much, methods little
    better = Measured(SURE, np.clip(hard + 0.02, 0, 1))
    worse = Measured(Estimate(0.48, 0.001, 5), hard)
    low, high = comparisons.difference(better, worse).queries
    assert 0 < low < 0.02 < high + 0.002 and comparisons.lead(better, worse) == 1
    # The same means, but of queries that have nothing to do with each other.
    other = Measured(Estimate(0.48, 0.001, 5), rng.permutation(hard))
    assert comparisons.lead(better, other) == 0


def test_the_interval_over_queries_is_that_of_a_mean(rng):
    gaps = rng.normal(0.1, 0.3, 1000)
    found = comparisons.difference(Measured(SURE, gaps), Measured(SURE, np.zeros(1000)))
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(1000)
    expected = [gaps.mean() - half, gaps.mean() + half]
    np.testing.assert_allclose(found.queries, expected, atol=0.05 * half)


def test_standing_to_the_best_of_the_rivals():
    more = Estimate(0.6, 0.01, 3)
    found = {
        ("a", "we"): SURE, ("a", "x"): LESS, ("a", "y"): more,
        ("b", "we"): SURE, ("b", "x"): LESS, ("c", "we"): SURE, ("c", "x"): ONCE,
    }  # fmt: skip
    # What was not measured, or once, is not known; it takes away no defeat.
    assert standings.standing(found, "we", ["x", "y"]) == (0, 0, 1, 2)
    stand = standings.standing(found, "we", ["x"])
    assert stand == (2, 0, 0, 1)
    assert str(stand) == "ahead in 2, behind in 0, not told apart in 0, not known in 1 of 3"
    assert standings.standing(found, "we", ["x"], larger_is_better=False) == (0, 0, 2, 1)
    assert standings.standing(found, "nobody", ["x"]) == (0, 0, 0, 0)


def test_a_claim_is_open_where_a_comparison_is_missing():
    assert standings.outcome_of(standings.Standing(5, 1, 0)) == "agrees"
    assert standings.outcome_of(standings.Standing(5, 1, 0, 1)) == "open"
    assert standings.outcome_of(standings.Standing(5, 1, 1, 1)) == "differs"
    assert standings.outcome_of(standings.Standing(0, 0, 0)) == "open"


def test_holm_asks_the_more_the_more_is_compared():
    assert standings.holm({"a": 0.01, "b": 0.04, "c": 0.02}) == {"a", "b", "c"}
    assert standings.holm({"a": 0.02, "b": 0.04, "c": 0.03}) == set()
    assert standings.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == {"a"}
    one = Difference(0.1, 0.09, None)
    assert standings.leads([one]) == [1] and standings.leads([one] * 9) == [0] * 9
    assert standings.leads([one, one._replace(seeds=0.01, mean=-0.1)], 0.05) == [1, -1]
    assert standings.leads([one], 0.2) == [0]


def test_values_lie_below_their_bounds_only_with_their_whole_intervals():
    below, open_, above = (Difference(mean, 0.1, None) for mean in (-0.3, -0.05, 0.3))
    assert standings.outcome_of_bounds([below, below]) == "agrees"
    assert standings.outcome_of_bounds([below, open_]) == "open"
    assert standings.outcome_of_bounds([below, None]) == standings.outcome_of_bounds([]) == "open"
    assert standings.outcome_of_bounds([below, None, above]) == "differs"
    assert standings.outcome_of_bounds([below._replace(seeds=None)]) == "open"


@pytest.mark.parametrize("n_seeds", [(5, 3), (3, 3)])
def test_methods_that_are_all_alike_are_seldom_called_ahead_or_behind(n_seeds, rng):
    """A claim of 24 comparisons without any true difference: wrong in 5 of 100 at most."""
    n_queries, rivals, wrong, trials = 200, ["x", "y", "z"], 0, 200

    def measured(n):
        own = 0.5 + rng.normal(0, 0.1, n_queries)  # the queries that suit a method
        by_seed = own.mean() + rng.normal(0, 0.006, n)
        return Measured(estimate(by_seed), own - own.mean() + by_seed.mean())

    for _ in range(trials):
        found = {
            (cell, name): measured(n_seeds[name != "we"])
            for cell in range(8)
            for name in ("we", *rivals)
        }
        stand = standings.standing(found, "we", rivals, least=0.0)
        wrong += stand.ahead + stand.behind > 0
    assert wrong / trials <= 0.06


def test_true_differences_are_still_found(rng):
    found = {}
    for cell in range(8):
        shares = rng.random(200)
        for name, more in {"we": 0.06, "x": 0.0, "y": 0.03}.items():
            found[cell, name] = Measured(
                estimate(0.5 + more + rng.normal(0, 0.002, 5)), shares + rng.normal(more, 0.02, 200)
            )
    assert standings.standing(found, "we", ["x", "y"]) == (8, 0, 0, 0)
    assert standings.standing(found, "x", ["we", "y"]) == (0, 0, 8, 0)


def test_the_rival_that_decides_stands_with_all_intervals(rng):
    shares = rng.random(200)
    found = {
        ("MNIST", 16, "we"): Measured(SURE, shares + 0.1),
        ("MNIST", 16, "x"): Measured(LESS, shares),
        ("MNIST", 16, "y"): Measured(Estimate(0.2, 0.01, 3), shares - 0.2),
        ("SIFT", 16, "we"): Measured(SURE),
        ("SIFT", 16, "x"): Measured(ONCE),
    }
    judged = standings.judgements(found, "we", ["x", "y"])
    table = standings.deciding_rivals(judged, "we", "caption")
    assert table.cells[0][:3] == ["MNIST, 16 bits", "x", "+0.100"]
    assert table.cells[0][-2:] == ["5, 5", "ahead"] and table.cells[0][4].startswith("+0.1")
    assert table.cells[1][3] == "too few seeds" and table.cells[1][-1] == "not known"
    assert all(len(line) == len(table.headings) for line in table.cells)


def test_the_table_says_what_the_sentence_says():
    found = {
        ("S", 16, "we"): estimate([0.50, 0.50, 0.501]),
        ("S", 16, "steady"): estimate([0.47, 0.47, 0.471]),
        ("S", 16, "wild"): estimate([0.30, 0.46, 0.60]),
    }
    # The best rival by its mean is surely beaten; another, which nobody can be sure of, decides.
    judged = standings.judgements(found, "we", ["steady", "wild"])
    assert standings.count(judged.values()) == (0, 1, 0, 0)
    (line,) = standings.deciding_rivals(judged, "we", "").cells
    assert line[1] == "wild" and line[-1] == "not told apart"


def test_pca_hashing_draws_where_bits_exceed_the_numbers_of_a_vector():
    def of(model, n_bits, source):
        return draws_nothing({"model": model, "n_bits": n_bits, "source": source})

    assert of("PCAHashing", 64, "glove100") and not of("PCAHashing", 128, "glove100")
    assert of("PCAHashing", 32, "clusters:32") and not of("PCAHashing", 33, "clusters:32")
    assert of("PCAHashing", 64, "digits") and not of("PCAHashing", 65, "digits")
    assert of("SpectralHashing", 128, "glove100") and not of("ITQ", 16, "glove100")


def test_k_means_hashing_draws_nothing_from_few_rows(rng):
    rows = rng.normal(size=(300, 16)).astype(np.float32)

    def codes(seed, **options):
        model = model_class("KMeansHashing")(n_bits=8, random_state=seed, **options)
        return model.fit(rows).encode(rows)

    np.testing.assert_array_equal(codes(0), codes(1))
    assert (codes(0, sample=100) != codes(1, sample=100)).any()
    few = {"model": "KMeansHashing", "n_bits": 64, "source": "glove100", "n_vectors": 71_291}
    assert draws_nothing(few) and not draws_nothing({**few, "n_bits": 128})
    assert not draws_nothing({**few, "n_vectors": 500_000})


def test_what_queries_found_comes_back_from_its_text(rng):
    tenths = rng.integers(0, 11, 300) / 10
    np.testing.assert_array_equal(unpack_shares(pack_shares(tenths)), tenths)
    shares = rng.random(300)
    assert np.abs(unpack_shares(pack_shares(shares)) - shares).max() <= 1 / 400 + 1e-12
    rows = [
        {"values": {KEPT: {"a": pack_shares(tenths)}}},
        {"values": {KEPT: {"a": pack_shares(1 - tenths)}}},
    ]
    np.testing.assert_allclose(shares_of(rows, "a"), 0.5)
    assert shares_of([*rows, {"values": {}}], "a") is None and shares_of(rows, "b") is None


def test_curves_of_errors_end_at_the_final_error():
    values = {"reconstruction_error": 3.0, "error_seen": [8.0, 4.0, 2.0]}
    assert scaled_errors(values) == [12.0, 6.0, 3.0]
