"""The asymmetric scan gives what scoring every code and sorting gives, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sghash.bits import unpack_bits
from sghash.kernels.tables import best_rows, nibbles, rescoring, terms as code_terms
from sghash.kernels.tables.search import asymmetric_neighbors, make_terms
from sghash.kernels.threads import run


def make(rng, n, n_bits, n_queries, *, l2):
    bits = rng.random((n, n_bits)) < rng.uniform(0.2, 0.8, n_bits)
    codes = np.packbits(bits, axis=1)
    tables = rescoring.nibble_tables(rng.standard_normal((n_queries, n_bits)), codes.shape[1])
    if not l2:
        return codes, tables, None
    directions = rng.standard_normal((n_bits, 7)) / 4
    gram = code_terms.gram_tables(directions @ directions.T, codes.shape[1])
    return codes, tables, make_terms(code_terms.code_terms(codes, gram), gram)


def every_score(codes, tables, terms):
    rows = np.tile(np.arange(len(codes)), (len(tables), 1))
    return rescoring.scores(codes, rows, tables, None if terms is None else terms.gram)


def check(rng, n, n_bits, n_queries, k, *, l2, masked=False):
    made = make(rng, n, n_bits, n_queries, l2=l2)
    check_made(*made, k, mask=rng.random(n) < 0.4 if masked else None)


def check_made(codes, tables, terms, k, *, mask=None):
    n, masked = len(codes), mask is not None
    scores = every_score(codes, tables, terms)
    if masked:
        scores = np.where(mask, scores, np.float32(np.inf))
    rows = np.broadcast_to(np.arange(n), scores.shape)
    order = np.lexsort((rows, scores), axis=1)[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    order = np.where(np.isinf(best), -1, order)
    for threads in (1, 2):
        found = asymmetric_neighbors(codes, tables, k, terms=terms, mask=mask, threads=threads)
        width = order.shape[1]
        np.testing.assert_array_equal(found.ids[:, :width], order)
        np.testing.assert_array_equal(found.distances[:, :width], best)
        assert (found.ids[:, width:] == -1).all()


@pytest.mark.parametrize("l2", [False, True])
@pytest.mark.parametrize("n_bits", [1, 5, 8, 12, 47, 64, 65, 128, 200])
def test_neighbours_equal_a_full_sort(n_bits, l2, rng):
    check(rng, 3000, n_bits, 5, 10, l2=l2)
    check(rng, 700, n_bits, 70, 3, l2=l2, masked=True)
    check(rng, 40, n_bits, 1, 100, l2=l2)
    check(rng, 1000, n_bits, 2, 10, l2=l2, masked=True)


def test_equal_codes_come_in_the_order_of_rows(rng):
    codes = np.repeat(rng.integers(0, 256, (2, 8), dtype=np.uint8), 2000, axis=0)
    tables = rescoring.nibble_tables(rng.standard_normal((3, 64)), 8)
    found = asymmetric_neighbors(codes, tables, 20)
    for query in range(3):
        first = found.ids[query, 0]
        np.testing.assert_array_equal(found.ids[query], first + np.arange(20))


@pytest.mark.parametrize("l2", [False, True])
@pytest.mark.parametrize("n_queries", [1, 7])
@pytest.mark.parametrize("kind", ["like the rest", "too good", "too bad", "all equal"])
def test_a_sample_changes_nothing(kind, n_queries, l2, rng, monkeypatch):
    monkeypatch.setattr(best_rows, "ENOUGH", 8)
    monkeypatch.setattr(best_rows, "WORTH_A_SAMPLE", 1)
    searched = []

    def spy(*arguments, **options):
        searched.append((arguments[0].n_rows, options.get("sampling", True)))
        plain(*arguments, **options)

    plain = best_rows.search_group
    monkeypatch.setattr(best_rows, "search_group", spy)
    n, k = 6000, 20
    codes, tables, _ = make(rng, n, 64, n_queries, l2=False)
    stride = 256 if n_queries == 1 else 64
    order = np.argsort(every_score(codes, tables[:1], None)[0], kind="stable")
    if kind == "too good":
        # The best rows of the first query stand where the sample is taken.
        best = codes[order[: n // stride + 1]].copy()
        codes[::stride] = best[: len(codes[::stride])]
    elif kind == "too bad":
        codes[::stride] = codes[order[-1]]
    elif kind == "all equal":
        codes[:] = codes[0]
    terms = None
    if l2:
        directions = rng.standard_normal((64, 7)) / 40
        gram = code_terms.gram_tables(directions @ directions.T, 8)
        terms = make_terms(code_terms.code_terms(codes, gram), gram)
    check_made(codes, tables, terms, k)
    assert any(n_rows < n for n_rows, _ in searched), "no sample was taken"
    if kind in ("too good", "too bad"):
        assert ((n, False) in searched) == (kind == "too good"), "searched again, or not"
    check_made(codes, tables, terms, k, mask=rng.random(n) < 0.7)
    check_made(codes, tables, terms, k, mask=rng.random(n) < 0.1)


@pytest.mark.skipif(not nibbles.AVAILABLE, reason="needs the byte shuffle")
def test_marks_are_put_in_the_order_of_rows():
    for row in range(32):
        vector, upper, odd = row // 4, row // 2 % 2, row % 2
        mark = np.uint64(1) << np.uint64(16 * upper + 2 * vector + odd)
        assert nibbles.rows_in_order(mark, False) == 1 << row
        mark = np.uint64(1) << np.uint64(16 * odd + row // 2)
        assert nibbles.rows_in_order(mark, True) == 1 << row


@pytest.mark.parametrize("n_bits", [1, 21, 64, 65, 130, 200])
def test_tables_and_terms_are_the_formula(n_bits, rng):
    codes, _, _ = make(rng, 50, n_bits, 4, l2=False)
    slopes, gram = rng.standard_normal((4, n_bits)), rng.standard_normal((n_bits, n_bits))
    gram += gram.T
    bits = unpack_bits(codes, n_bits).astype(float)
    tables = rescoring.nibble_tables(slopes, codes.shape[1])
    np.testing.assert_allclose(every_score(codes, tables, None), slopes @ bits.T, atol=1e-4)
    found = code_terms.code_terms(codes, code_terms.gram_tables(gram, codes.shape[1]))
    expected = np.einsum("ij,jk,ik->i", bits, gram, bits)
    np.testing.assert_allclose(found, expected, atol=1e-6 * n_bits**2)


@pytest.mark.parametrize("k", [1, 5, 32, 33, 90, 200])
def test_best_places_are_a_stable_sort(k, rng):
    scores = rng.integers(0, 25, (7, 200)).astype(np.float32)
    scores[1] = 3
    scores[2, 50:] = np.inf
    expected = np.argsort(scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(rescoring.best_places(scores, k), expected)


@pytest.mark.slow
@pytest.mark.skipif(not nibbles.AVAILABLE, reason="this CPU has only the plain way, tested above")
def test_the_plain_way_agrees(tmp_path):
    """CPUs without the byte shuffle take another path: force it in a process of its own."""
    program = (
        "import numpy as np; import importlib.util as u; "
        f"s = u.spec_from_file_location('t', {__file__!r}); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); rng = np.random.default_rng(1); "
        "assert not m.nibbles.AVAILABLE; "
        "[m.check(rng, 900, b, 3, 10, l2=l, masked=l) for b in (12, 64) for l in (False, True)]"
    )
    environment = {**os.environ, "SGHASH_SHUFFLE": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_few_scores_start_no_threads(rng, monkeypatch):
    monkeypatch.setattr(best_rows, "WORTH_A_THREAD", 1000)
    jobs = []
    monkeypatch.setattr(best_rows, "run", lambda given: jobs.append(len(given)) or run(given))
    for n, n_queries, expected in ((900, 1, 1), (3000, 1, 3), (3000, 300, 4), (900, 2, 1)):
        codes, tables, _ = make(rng, n, 64, n_queries, l2=False)
        found = asymmetric_neighbors(codes, tables, 5, threads=4)
        assert jobs.pop() == expected
        np.testing.assert_array_equal(found.ids, asymmetric_neighbors(codes, tables, 5).ids)
        jobs.clear()
