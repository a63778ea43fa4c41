"""What it costs to look codes up by their keys, to scan them, and to build tables, in nanoseconds.

Before there are tables, a model with the constants of one machine has to do; when they are built,
both ways are timed on some of the rows, so that the choice is this machine's and these rows'.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sghash.kernels import hamming_neighbors, hamming_range
from sghash.validation import Codes

if TYPE_CHECKING:
    from sghash.kernels.multi.layout import Tables

#: So many queries are scanned together.
AMONG = 8
# Nanoseconds to put a row into one table, and to make one place of it.
_BUILD_ROW, _BUILD_PLACE = 60.0, 3.0
# Rows that a scan is timed on, queries of it, neighbours of a look-up, and what it may take.
_ROWS, _QUERIES, _K, _MOST_TIME = 1 << 20, 16, 10, 1e6
_ROUNDS = 3
# Beyond this factor a time is noise. Of look-ups within a radius, few are enough.
_MOST_FACTOR = 16.0
_FEW = 8
# Tables must be expected to take no more of a scan's time than that: both are only expected to.
_PAYS = 0.7


class Costs(NamedTuple):
    """Nanoseconds of a scan by row and 8 bytes of code, for a query alone and for one among many.

    Scans for the nearest rows and for all within a radius differ. `look_up` is what a look-up takes
    of the time that its kernel reckons with; `by_radius` what one within 0, 1, 2 ... bits took, as
    far as that was less than a scan, and empty before it was measured.
    """

    nearest_alone: float = 0.6
    nearest_among: float = 0.1
    range_alone: float = 0.6
    range_among: float = 0.3
    look_up: float = 1.0
    by_radius: tuple[float, ...] = ()

    def nearest(self, n: int, n_bytes: int, n_queries: int) -> float:
        """Nanoseconds that a scan for the nearest rows takes for one of so many queries."""
        by_row = self.nearest_alone if n_queries < AMONG else self.nearest_among
        return by_row * n * -(-n_bytes // 8)

    def scan(self, n: int, n_bytes: int, n_queries: int) -> float:
        """The same for all rows within a radius."""
        by_row = self.range_alone if n_queries < AMONG else self.range_among
        return by_row * n * -(-n_bytes // 8)

    def scan_pairs(self, n: int, n_bytes: int) -> float:
        """The same for all pairs of rows, each looked at once."""
        return self.range_among * n * n / 2 * -(-n_bytes // 8)

    def within(self, radius: int, reckoned: Callable[[], float]) -> float:
        """Nanoseconds of a look-up within a radius: as measured, or else `reckoned`."""
        if not self.by_radius:
            return self.look_up * reckoned()
        return self.by_radius[radius] if radius < len(self.by_radius) else math.inf

    def budget(self, nanoseconds: float) -> float:
        """Nanoseconds as the kernel of a look-up reckons them."""
        return nanoseconds / self.look_up


def pays(tables: float, scan: float) -> bool:
    """Whether to look up is clearly the cheaper way."""
    return tables < _PAYS * scan


@lru_cache(maxsize=256)
def keys_cost(n: int, n_bits: int, n_parts: int | None, radius: int) -> float:
    """Nanoseconds that the keys within a radius take at least, were all equally crowded."""
    from sghash.kernels.multi.layout import MOST_KEY_BITS, default_parts
    from sghash.kernels.multi.probing import ENTRY_COST, KEY_COST

    m = n_parts or default_parts(n, n_bits)
    bits = min(MOST_KEY_BITS, max(1, n.bit_length()), -(-n_bits // m))
    keys = sum(
        math.comb(bits, weight)
        for part in range(m)
        for weight in range(min(bits, (radius - part) // m) + 1)
    )
    return float(keys * (KEY_COST + ENTRY_COST * n / 2**bits))


def build_cost(n: int, n_bits: int, n_parts: int | None) -> float:
    """Nanoseconds that tables of n rows take to build."""
    from sghash.kernels.multi.layout import default_parts, places_of

    m = n_parts or default_parts(n, n_bits)
    return float(m * (_BUILD_ROW * n + _BUILD_PLACE * places_of(n, n_bits, m)))


def measured(tables: Tables, codes: Codes) -> Costs:
    """What both ways take here, each the best of some rounds on one thread."""
    from sghash.kernels.multi.search import multi_neighbors

    n_bytes, model = codes.shape[1], Costs()
    some = codes[:_ROWS]
    queries = np.ascontiguousarray(codes[:: max(1, len(codes) // _QUERIES)][:_QUERIES])

    def timed(search: Any, n_queries: int, usual: float) -> float:
        asked = queries[:n_queries]
        spent = _timed(lambda: search(some, asked))
        return _near(spent / (len(asked) * len(some) * -(-n_bytes // 8)), usual)

    def nearest(rows: Codes, asked: Codes) -> Any:
        return hamming_neighbors(rows, asked, _K, n_bits=8 * n_bytes, threads=1)

    def within(rows: Codes, asked: Codes) -> Any:
        return hamming_range(rows, asked, 0, n_bits=8 * n_bytes, threads=1)

    budget = min(_MOST_TIME, model.nearest(len(codes), n_bytes, 1))
    told: list[float] = []

    def look_up() -> None:
        probed = multi_neighbors(tables, codes, queries, _K, budget=budget)
        told.append(probed.spent * len(queries))

    spent = _timed(look_up)
    kept = Costs(
        timed(nearest, 1, model.nearest_alone), timed(nearest, _QUERIES, model.nearest_among),
        timed(within, 1, model.range_alone), timed(within, _QUERIES, model.range_among),
        _near(spent / max(told[0], 1.0), model.look_up),
    )  # fmt: skip
    return kept._replace(by_radius=_by_radius(tables, codes, queries[:_FEW], kept))


def _by_radius(tables: Tables, codes: Codes, queries: Codes, costs: Costs) -> tuple[float, ...]:
    """Nanoseconds of a look-up by rising radius, until a scan takes less."""
    from sghash.kernels.multi.search import multi_range

    most = costs.scan(len(codes), codes.shape[1], 1)
    found: list[float] = []
    budget = 2 * costs.budget(most)
    multi_range(tables, codes, queries, 0)
    for radius in range(8 * codes.shape[1] + 1):
        started = time.thread_time_ns()
        complete = multi_range(tables, codes, queries, radius, budget=budget).complete.all()
        spent = (time.thread_time_ns() - started) / len(queries)
        if not complete or spent > most:
            break
        found.append(max([spent, *found[-1:]]))
    return tuple(found) or (math.inf,)


def _near(value: float, usual: float) -> float:
    return min(max(value, usual / _MOST_FACTOR), usual * _MOST_FACTOR)


def _timed(call: Callable[[], Any]) -> float:
    """Nanoseconds of the quickest of some calls; the first one may compile."""
    best = math.inf
    for _ in range(_ROUNDS + 1):
        started = time.thread_time_ns()
        call()
        best = min(best, time.thread_time_ns() - started)
    return best
