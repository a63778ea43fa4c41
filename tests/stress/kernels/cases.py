"""Small inputs for every kernel that searches or scores, each with its answer by NumPy.

All numbers are small and whole, so sums are exact in float32 whatever their order, answers are
equal to the last bit, and ties are plenty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sghash.kernels import reference
from sghash.kernels.hamming import search as hamming, shortlist
from sghash.kernels.learning import projection
from sghash.kernels.reference import small
from sghash.kernels.tables import rescoring, search as asymmetric
from sghash.kernels.tables.bytes import byte_table_neighbors
from sghash.kernels.tables.terms import code_terms, gram_tables
from sghash.kernels.vectors import exact, stored as kept
from sghash.kernels.vectors.kinds import KINDS, SMALL

Rng = np.random.Generator
# Widths in bits: those every path of the Hamming kernels treats apart, up to 520 bytes.
QUICK_BITS = (8, 61, 64, 128, 150, 257, 1000)
ALL_BITS = (1, 5, 8, 13, 16, 24, 32, 40, 47, 61, 64, 65, 96, 128, 150, 192, 256, 257, 511, 1000,
            2048, 4096, 4160)  # fmt: skip

# The tables of codes' own terms grow with the square of the width: wider codes are left out.
TERM_BITS = 300


class Case(NamedTuple):
    """A call of a kernel, and what it must return; `close` where rounding may differ."""

    kernel: str
    call: Callable[[], Any]
    expected: Any
    close: bool = False


def random_codes(rng: Rng, n: int, n_bits: int, *, distinct: int | None = None) -> Any:
    bits = rng.random((n if distinct is None else distinct, n_bits)) < 0.5
    codes = np.packbits(bits, axis=1)
    return codes if distinct is None else codes[rng.integers(0, distinct, n)]


def random_mask(rng: Rng, n: int) -> Any:
    share = rng.choice([None, 0.0, 0.05, 0.6, 1.0])
    return None if share is None else rng.random(n) < share


def _sizes(rng: Rng, n_bits: int = 64) -> tuple[int, int, int]:
    """Rows, neighbours, threads of a call: few, and the fewer the wider, for calls to be short."""
    n = int(rng.choice([1, 2, 31, 63, 64, 65, 130] + [300, 513, 700] * (n_bits <= 300)))
    k = int(rng.choice([1, 2, 10, 33, n, n + 3]))
    return n, k, int(rng.choice([1, 2, 3, 5], p=[0.94, 0.03, 0.02, 0.01]))


def hamming_case(rng: Rng, n_bits: int) -> Case:
    n, k, threads = _sizes(rng, n_bits)
    n_queries = int(rng.choice([1, 2, 7, 8, 9, 20]))
    codes = random_codes(rng, n, n_bits, distinct=rng.choice([None, 3]))
    queries, mask = random_codes(rng, n_queries, n_bits), random_mask(rng, n)
    if rng.random() < 0.25:
        codes.flags.writeable = False
    name = "direct" if n_queries < hamming.SLICED_FROM else "sliced"
    expected = reference.hamming_neighbors(codes, queries, k, n_bits=n_bits, mask=mask)
    return Case(
        f"hamming {name}",
        lambda: hamming.hamming_neighbors(
            codes, queries, k, n_bits=n_bits, mask=mask, threads=threads
        ),
        expected,
    )


def range_case(rng: Rng, n_bits: int) -> Case:
    n, _, threads = _sizes(rng, n_bits)
    queries = random_codes(rng, int(rng.choice([1, 3, 9])), n_bits)
    codes, mask = random_codes(rng, n, n_bits), random_mask(rng, n)
    radius = int(rng.choice([0, n_bits // 3, n_bits // 2, n_bits + 1]))
    expected = reference.hamming_range(codes, queries, radius, n_bits=n_bits, mask=mask)
    return Case(
        "hamming range",
        lambda: hamming.hamming_range(
            codes, queries, radius, n_bits=n_bits, mask=mask, threads=threads
        ),
        expected,
    )


def shortlist_case(rng: Rng, n_bits: int) -> Case:
    """The rows surely in a shortlist; a sample is taken only of many rows of short codes."""
    many = n_bits <= 16
    n, length = (8500, 70) if many else (_sizes(rng, n_bits)[0], 12)
    queries = random_codes(rng, 9, n_bits)
    codes, mask = random_codes(rng, n, n_bits), random_mask(rng, n)
    wide = reference.hamming_neighbors(
        codes, queries, shortlist.with_ties(length), n_bits=n_bits, mask=mask
    )

    def call() -> Any:
        found = shortlist.hamming_shortlist(codes, queries, length, n_bits=n_bits, mask=mask)
        return found.distances[:, :length], found.ids[:, :length]

    expected = wide.distances[:, :length], wide.ids[:, :length]
    return Case("shortlist", call, expected)


def _scored(rng: Rng, n: int, n_queries: int, n_bits: int) -> tuple[Any, ...]:
    """Codes, tables, gram, and all scores (n_queries, n) without and with terms."""
    codes = random_codes(rng, n, n_bits)
    bits = np.unpackbits(codes, axis=1, count=n_bits).astype(np.float64)
    slopes = rng.integers(-4, 5, (n_queries, n_bits)).astype(np.float64)
    directions = rng.integers(-1, 2, (n_bits, 2)).astype(np.float64)
    tables = rescoring.nibble_tables(slopes, codes.shape[1])
    gram = None
    if n_bits <= TERM_BITS:
        gram = gram_tables(directions @ directions.T, codes.shape[1])
    plain = slopes @ bits.T
    terms = np.square(bits @ directions).sum(axis=1)
    return codes, tables, gram, plain.astype(np.float32), terms.astype(np.float32)


def asymmetric_case(rng: Rng, n_bits: int) -> Case:
    n, k, threads = _sizes(rng, n_bits)
    n_queries = int(rng.choice([1, 2, 3, 9]))
    codes, tables, gram, plain, own = _scored(rng, n, n_queries, n_bits)
    mask, l2 = random_mask(rng, n), gram is not None and rng.random() < 0.5
    terms = asymmetric.make_terms(own, gram) if l2 else None
    expected = reference.nearest(plain + own if l2 else plain, k, mask)
    return Case(
        "asymmetric l2" if l2 else "asymmetric",
        lambda: asymmetric.asymmetric_neighbors(
            codes, tables, k, terms=terms, mask=mask, threads=threads
        ),
        expected,
    )


def rescoring_case(rng: Rng, n_bits: int) -> Case:
    n, k, threads = _sizes(rng, n_bits)
    n_queries = int(rng.choice([1, 4]))
    codes, tables, gram, plain, own = _scored(rng, n, n_queries, n_bits)
    l2 = gram is not None and rng.random() < 0.5
    every = plain + own if l2 else plain
    rows = rng.integers(-1, n, (n_queries, 40))
    scores = np.take_along_axis(every, np.maximum(rows, 0), axis=1)
    scores[rows < 0] = np.inf
    k = min(k, 40)

    def call() -> Any:
        found = rescoring.scores(codes, rows, tables, gram if l2 else None, threads=threads)
        return found, rescoring.best_places(found, k)

    return Case("rescoring", call, (scores, np.argsort(scores, axis=1, kind="stable")[:, :k]))


def terms_case(rng: Rng, n_bits: int) -> Case:
    codes, _, gram, _, own = _scored(rng, _sizes(rng)[0], 1, min(n_bits, TERM_BITS))
    return Case("code terms", lambda: (code_terms(codes, gram),), (own,))


def kept_case(rng: Rng, n_bits: int) -> Case:
    n, width = _sizes(rng)[0], int(rng.choice([1, 7, 8, 31, 32, 33, 100]))
    kind, metric = str(rng.choice(list(KINDS))), str(rng.choice(["l2", "ip", "cosine"]))
    vectors = rng.integers(-3, 4, (n, width)).astype(np.float32)
    queries = rng.integers(-3, 4, (3, width)).astype(np.float32)
    rows = rng.integers(-1, n, (3, 20))
    if kind in SMALL:
        vectors = small.shrink(vectors, kind)
        expected = small.small_distances(vectors, rows, queries, metric)
    else:
        every = reference.vector_distances(vectors, queries, metric)
        expected = np.take_along_axis(every, np.maximum(rows, 0), axis=1)
        expected[rows < 0] = np.inf
        vectors = vectors.astype(kind)
    return Case(
        "kept vectors",
        lambda: (kept.kept_distances(vectors, rows, queries, metric),),
        (expected,),
        close=metric == "cosine",
    )


def projection_case(rng: Rng, n_bits: int) -> Case:
    vectors = rng.integers(-3, 4, (int(rng.choice([1, 17, 60])), 5)).astype(np.float32)
    weights = rng.integers(-2, 3, (5, n_bits)).astype(np.float32)
    bias = rng.integers(-2, 3, n_bits).astype(np.float32)
    arranged = projection.arrange(weights, bias)
    scores = vectors @ arranged.weights
    expected = np.packbits(vectors @ weights + bias > 0, axis=1)

    def call() -> Any:
        codes = np.empty_like(expected)
        finite = projection.pack_signs(scores, arranged.bias, codes)
        return codes, np.asarray(finite)

    return Case("projection", call, (expected, np.asarray(True)))


def bytes_case(rng: Rng, n_bits: int) -> Case:
    n, k, threads = _sizes(rng)
    n_queries, n_bytes = int(rng.choice([1, 2, 5, 20, 70])), int(rng.choice([1, 3, 8, 16, 19]))
    size = int(rng.choice([2, 16, 256]))
    codes = rng.integers(0, size, (n, n_bytes), dtype=np.uint8)
    tables = rng.integers(-4, 9, (n_queries, n_bytes, size)).astype(np.float32)
    mask = random_mask(rng, n)
    return Case(
        "byte tables",
        lambda: byte_table_neighbors(codes, tables, k, mask=mask, threads=threads),
        reference.byte_table_neighbors(codes, tables, k, mask=mask),
    )


def exact_case(rng: Rng, n_bits: int) -> Case:
    n, k, _ = _sizes(rng)
    metric = str(rng.choice(["l2", "ip", "cosine"]))
    vectors = rng.integers(-3, 4, (n, 6)).astype(np.float32)
    queries = rng.integers(-3, 4, (3, 6)).astype(np.float32)
    return Case(
        "exact",
        lambda: exact.exact_neighbors(vectors, queries, k, metric=metric, threads=1),
        reference.exact_neighbors(vectors, queries, k, metric=metric),
    )


#: Makers and how often each is drawn: the bit slices, where memory is shared most, come first.
MAKERS: dict[Callable[[Rng, int], Case], int] = {
    hamming_case: 8,
    range_case: 2,
    shortlist_case: 1,
    asymmetric_case: 4,
    rescoring_case: 2,
    terms_case: 1,
    kept_case: 2,
    projection_case: 2,
    bytes_case: 3,
    exact_case: 1,
}


def make_pool(seed: int, size: int, widths: tuple[int, ...]) -> list[Case]:
    """So many cases of all kernels, over all widths."""
    rng = np.random.default_rng(seed)
    makers = [maker for maker, times in MAKERS.items() for _ in range(times)]
    pairs = [(maker, n_bits) for n_bits in widths for maker in makers]
    return [pairs[i % len(pairs)][0](rng, pairs[i % len(pairs)][1]) for i in range(size)]
