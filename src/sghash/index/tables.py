"""Search with real queries: every code is scored by query tables, and the best are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidDtype, InvalidInput
from sghash.guards import Guard
from sghash.index.base import CodeIndex, Mask
from sghash.index.rows import Held
from sghash.neighbors import Neighbors, padding_distance
from sghash.tables import CodeLayout, QueryTables
from sghash.validation import (
    MAX_BITS,
    Codes,
    Vectors,
    check_codes,
    check_count,
    check_k,
    check_n_bits,
    check_threads,
    n_bytes_of,
)

if TYPE_CHECKING:
    from sghash.kernels.tables.search import Terms

MAX_BYTES = MAX_BITS // 8
#: What all entries of a gram may add up to: float32 holds it.
MAX_TERM = 1e37
#: What all entries of a query's table of bits may add up to, for the same reason.
MAX_SUM = 1e38
#: By what share of its largest entry a gram may differ from its mirror image: rounding.
SYMMETRY = 1e-6
# Held while terms are computed, of any rows: two threads must not do the same work at once.
_terms_guard = Guard()


class HasLayout(Protocol):
    """A fitted model that has query tables."""

    def code_layout(self, metric: str | None = None) -> CodeLayout:
        """What an index must know of the model's codes."""


class TableIndex(CodeIndex):
    """Codes with stable int64 ids, searched by query tables: exact scores, by (score, id).

    A query is never turned into a code, so nothing of it is lost: a model's `query_tables` say
    what each bit, or each value of each byte, adds to the score of a code. What the scores mean
    (squared distance, minus the inner product, 1 - cosine) is the model's matter:
    smaller is nearer.

    Parameters
    ----------
    n_bytes : int
        Bytes of a code, 1 to 512.
    n_bits : int or None
        Bits in use where codes are bits: tables may then have one number per bit.
    gram : (n_bits, n_bits) array or None
        With it, a code of bits h adds h @ gram @ h to every score.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> vectors = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> model = sghash.ProductQuantizer(4, random_state=0).fit(vectors)
    >>> index = sghash.TableIndex.for_model(model)
    >>> _ = index.add(model.encode(vectors))
    >>> distances, ids = index.search(model.query_tables(vectors[:2]), k=3)
    >>> ids[:, 0].tolist()
    [0, 1]
    """

    kind: ClassVar[str] = "tables"

    def __init__(
        self, n_bytes: int, *, n_bits: int | None = None, gram: ArrayLike | None = None
    ) -> None:
        check_count(n_bytes, name="n_bytes")
        if n_bytes > MAX_BYTES:
            raise InvalidInput(f"n_bytes must be at most {MAX_BYTES}, got {n_bytes}")
        if n_bits is not None and n_bytes_of(check_n_bits(n_bits)) != n_bytes:
            raise InvalidInput(f"{n_bits} bits take {n_bytes_of(n_bits)} bytes, not {n_bytes}")
        super().__init__(int(n_bytes))
        self.n_bits = None if n_bits is None else int(n_bits)
        self.gram = None if gram is None else _checked_gram(gram, n_bits)
        self._gram_tables: Vectors | None = None
        self._terms: tuple[Held, Terms] | None = None

    @classmethod
    def for_model(cls, model: HasLayout, *, metric: str | None = None) -> Self:
        """Return an empty index for the codes of a fitted model; `metric` is that of its tables."""
        layout = model.code_layout(metric)
        return cls(layout.n_bytes, n_bits=layout.n_bits, gram=layout.gram)

    def __repr__(self) -> str:
        return f"TableIndex({self.n_bytes}) with {len(self)} codes"

    def search(
        self,
        queries: QueryTables,
        k: int = 10,
        *,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k codes of least score of each query: float32 and ids int64, (n_queries, k).

        `queries` come from a model's `query_tables`. `mask` (len(index),) bool allows the rows of
        `ids` where it is True. Where fewer than k rows are allowed, the rest is id -1.
        """
        tables = self.checked_queries(queries)
        held = self._held
        found = self._nearest(
            held, tables, check_k(k), self._mask(mask, held), check_threads(threads)
        )
        return with_offsets(Neighbors(found.distances, held.row_ids.at(found.ids)), tables.offsets)

    def nearest_rows(
        self, queries: QueryTables, k: int, *, mask: Mask | None, threads: int
    ) -> Neighbors:
        """Return rows instead of ids, and scores without offsets, for checked arguments."""
        return self._nearest(self._held, queries, k, mask, threads)

    def scores_of_rows(
        self, queries: QueryTables, rows: NDArray[np.int64], *, threads: int
    ) -> Vectors:
        """Scores without offsets of `rows` (n_queries, m), infinite where a row is negative."""
        from sghash.kernels.tables.rescoring import nibble_tables, scores

        codes = self._held.codes
        if queries.tables.ndim == 2:
            tables = nibble_tables(queries.tables.astype(np.float64), self.n_bytes)
            return scores(codes, rows, tables, self.own_tables(), threads=threads)
        if not len(codes):
            return np.full(rows.shape, np.inf, dtype=np.float32)
        found = np.zeros(rows.shape, dtype=np.float32)
        every = np.arange(len(rows))[:, None]
        for byte in range(self.n_bytes):
            found += queries.tables[every, byte, codes[np.maximum(rows, 0), byte]]
        found[rows < 0] = np.inf
        return found

    def checked_queries(self, queries: QueryTables) -> QueryTables:
        """Query tables that this index can use, or one sentence."""
        if not isinstance(queries, QueryTables):
            raise InvalidDtype(
                f"queries must be QueryTables, got {type(queries).__name__}: take them from a "
                "model's query_tables"
            )
        tables, offsets = np.asarray(queries.tables), np.asarray(queries.offsets)
        for name, part in (("tables", tables), ("offsets", offsets)):
            if part.dtype != np.float32 or not np.isfinite(part).all():
                raise InvalidInput(
                    f"{name} of queries must be finite float32 numbers, got {part.dtype}: take "
                    "them from a model's query_tables"
                )
        expected: list[tuple[int, ...]] = [(self.n_bytes, 256)] if self.gram is None else []
        expected += [] if self.n_bits is None else [(self.n_bits,)]
        if tables.shape[1:] not in expected:
            shapes = " or ".join(str(("n_queries", *shape)).replace("'", "") for shape in expected)
            raise InvalidInput(
                f"the tables of queries have the shape {tables.shape}, this index takes {shapes}: "
                "take them from the model that made the codes"
            )
        if offsets.shape != (len(tables),):
            raise InvalidInput(
                f"the offsets of {len(tables)} queries have the shape {offsets.shape}: give one "
                "for each query"
            )
        if (
            tables.ndim == 2
            and np.abs(tables).sum(axis=1, dtype=np.float64).max(initial=0) > MAX_SUM
        ):
            raise InvalidInput(
                "tables hold numbers too large for float32 sums: look at the queries they were "
                "made from"
            )
        if queries.own_terms is not None and queries.own_terms != (self.gram is not None):
            raise InvalidInput(
                "the queries are of another metric than this index: give the same metric to "
                "query_tables and to TableIndex.for_model"
            )
        return QueryTables(np.ascontiguousarray(tables), offsets, queries.own_terms)

    def _nearest(
        self, held: Held, queries: QueryTables, k: int, mask: Mask | None, threads: int
    ) -> Neighbors:
        if queries.tables.ndim == 3:
            from sghash.kernels.tables.bytes import byte_table_neighbors

            return byte_table_neighbors(held.codes, queries.tables, k, mask=mask, threads=threads)
        from sghash.kernels.tables.rescoring import nibble_tables
        from sghash.kernels.tables.search import asymmetric_neighbors

        tables = nibble_tables(queries.tables.astype(np.float64), self.n_bytes)
        terms = None if self.gram is None else self._own_terms(held, threads)
        return asymmetric_neighbors(held.codes, tables, k, terms=terms, mask=mask, threads=threads)

    def own_tables(self) -> Vectors | None:
        """Return the tables of what codes add to scores by themselves; made once."""
        if self.gram is not None and self._gram_tables is None:
            from sghash.kernels.tables.terms import gram_tables

            self._gram_tables = gram_tables(self.gram, self.n_bytes)
        return self._gram_tables

    def _own_terms(self, held: Held, threads: int) -> Terms:
        """What each code adds to scores by itself, a byte per row; once for each moment."""
        with _terms_guard.lock:
            if self._terms is None or self._terms[0] is not held:
                from sghash.kernels.tables.search import make_terms
                from sghash.kernels.tables.terms import code_terms

                gram = self.own_tables()
                assert gram is not None  # the caller has a gram
                values = code_terms(held.codes, gram, threads=threads)
                self._terms = held, make_terms(values, gram)
            return self._terms[1]

    def _checked(self, codes: ArrayLike) -> Codes:
        return check_codes(codes, self.n_bits or 8 * self.n_bytes)

    def _options(self) -> dict[str, Any]:
        options = {"n_bytes": self.n_bytes, "n_bits": self.n_bits, "gram": self.gram}
        return {name: value for name, value in options.items() if value is not None}

    def _leave_unchecked(self) -> None:
        """Bits of the padding have zeros in every table: they may be anything."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_terms": None, "_gram_tables": None}


def with_offsets(found: Neighbors, offsets: Vectors, *, by_id: bool = True) -> Neighbors:
    """Add what depends on the query alone; rounding may make ties, which go by id, or stay."""
    missing = found.ids < 0
    scores = (found.distances + offsets[:, None]).astype(np.float32)
    scores[missing] = padding_distance(scores.dtype)
    if not by_id or (scores[:, 1:] > scores[:, :-1]).all():
        return Neighbors(scores, found.ids)
    last = np.where(missing, np.iinfo(np.int64).max, found.ids)
    order = np.lexsort((last, scores), axis=1)
    return Neighbors(
        np.take_along_axis(scores, order, axis=1), np.take_along_axis(found.ids, order, axis=1)
    )


def _checked_gram(gram: ArrayLike, n_bits: int | None) -> NDArray[np.float64]:
    if n_bits is None:
        raise InvalidInput("a gram is one of bits: give n_bits too")
    try:
        array = np.asarray(gram)
    except ValueError as error:
        raise InvalidInput(f"gram must be numbers of the shape ({n_bits}, {n_bits})") from error
    if array.shape != (n_bits, n_bits) or array.dtype.kind not in "fiu":
        raise InvalidInput(f"gram must be numbers of the shape ({n_bits}, {n_bits})")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InvalidInput("gram must be finite")
    # A code's term is a float32 sum of its entries, however many bits are set.
    largest = float(np.abs(array).max())
    if largest * array.size > MAX_TERM:
        raise InvalidInput(
            f"gram reaches {largest:.3g}, and {array.size} such entries add up to more than "
            f"{MAX_TERM:.0e}: rescale the vectors that the model learns from"
        )
    if np.abs(array - array.T).max() > SYMMETRY * largest:
        raise InvalidInput("gram must be symmetric")
    return array
