"""Search that visits few codes: lists around centroids, the nearest of them scanned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray

from sghash.errors import BadFile, InvalidInput, SghashError
from sghash.guards import Guard
from sghash.index.base import CodeIndex
from sghash.index.file import StoredIndex, read_index, write_index
from sghash.index.lists.arranged import (
    Arranged,
    arrange_all,
    empty_arranged,
    with_rows,
    without,
)
from sghash.index.lists.centroids import Partitions, check_lists, check_places, learn
from sghash.index.lists.curve import Curve, curve_of
from sghash.index.lists.explanation import Explanation
from sghash.index.lists.file import arranged_of, check_copies, read_numbers, stored_of
from sghash.index.lists.query_map import QueryMap, linear_map, map_of
from sghash.index.tables import TableIndex
from sghash.neighbors import Neighbors
from sghash.validation import (
    METRICS,
    Codes,
    Ids,
    Vectors,
    check_choice,
    check_codes,
    check_count,
    check_ids,
    check_number,
    check_threads,
    check_vectors,
    next_ids,
)

if TYPE_CHECKING:
    from sghash.index.lists.probing import Prepared


class PartitionedIndex(CodeIndex):
    """Codes with stable int64 ids in lists around centroids; a search visits the nearest lists.

    Lists are learned from the rows of the first `add`: by k-means on their `vectors` where those
    are given, else from the codes themselves. Later rows go to the lists there are; `rebalance`
    learns them anew. Vectors are not kept: whoever has them hands them in as `kept`, and the
    answer is then ordered by exact distance.

    Without `probes` or `target_recall` every list is visited, and the answer is that of a
    `HammingIndex` or a `TableIndex` over the same codes, ties included.

    Parameters
    ----------
    n_bytes : int
        Bytes of a code, 1 to 512.
    n_bits : int or None
        Bits in use where codes are bits.
    gram : (n_bits, n_bits) array or None
        With it, a code of bits h adds h @ gram @ h to every score by tables.
    n_lists : int or None
        Number of lists, at most 65,536; None: about twice the square root of the number of rows.
    metric : {"l2", "ip", "cosine"}
        By what vectors are near.
    spill : float
        Share of rows, those between two lists, that are put into both.
    random_state : int
        Decides the sample that lists are learned from.

    Examples
    --------
    >>> import numpy as np, sghash
    >>> from sghash.index import PartitionedIndex
    >>> vectors = np.random.default_rng(0).standard_normal((2000, 16)).astype(np.float32)
    >>> model = sghash.SGH(32, random_state=0).fit(vectors)
    >>> index = PartitionedIndex.for_model(model)
    >>> _ = index.add(model.encode(vectors), vectors=vectors)
    >>> index.search(vectors[:2], k=1, kept=vectors, probes=4).ids[:, 0].tolist()
    [0, 1]
    """

    kind: ClassVar[str] = "partitioned"
    _held: Any

    def __init__(
        self,
        n_bytes: int,
        *,
        n_bits: int | None = None,
        gram: ArrayLike | None = None,
        n_lists: int | None = None,
        metric: str = "l2",
        spill: float = 0.0,
        random_state: int = 0,
    ) -> None:
        # It knows all that tables need: shapes, grams, what queries may be.
        self.rules = TableIndex(n_bytes, n_bits=n_bits, gram=gram)
        super().__init__(self.rules.n_bytes)
        check_count(n_lists, name="n_lists", or_none=True)
        check_number(spill, name="spill", least=0.0)
        if spill > 1:
            raise InvalidInput(f"spill must be at most 1, got {spill}")
        check_count(random_state, name="random_state", least=0)
        if n_lists is not None:
            check_lists(n_lists, n_lists)
        self.n_bits, self.gram = self.rules.n_bits, self.rules.gram
        self.n_lists, self.spill, self.random_state = n_lists, float(spill), int(random_state)
        self.metric = check_choice(metric, METRICS, name="metric")
        self.query_map: QueryMap | None = None
        #: What `measure` found; None before.
        self.curve: Curve | None = None
        self._held = empty_arranged(None, self._n_planes, self.n_bytes)
        # What kernels are given of a moment, made once for it.
        self.prepared: Prepared | None = None

    @classmethod
    def for_model(cls, model: Any, *, metric: str | None = None, **options: Any) -> Self:
        """Return an empty index for the codes of a fitted model, with the model's way to score.

        Where query tables of one number per bit are linear in the query, the index computes them
        itself: then `search` takes vectors as they are.
        """
        layout = model.code_layout(metric)
        metric = metric or model.metric or "l2"
        index = cls(
            layout.n_bytes, n_bits=layout.n_bits, gram=layout.gram, metric=metric, **options
        )
        index.query_map = linear_map(model, metric)
        return index

    def __repr__(self) -> str:
        n_lists = 0 if self.partitions is None else self.partitions.n_lists
        return f"PartitionedIndex({self.n_bytes}) with {len(self)} codes in {n_lists} lists"

    @property
    def held(self) -> Arranged:
        """What the index holds at this moment."""
        found: Arranged = self._held
        return found

    @property
    def partitions(self) -> Partitions | None:
        """The lists; None before the first rows."""
        found: Partitions | None = self._held.partitions
        return found

    @property
    def _n_planes(self) -> int:
        return self.n_bytes + (self.gram is not None)

    @property
    def codes(self) -> Codes:
        """A copy of all codes, in the order of `ids`."""
        codes: Codes = self._held.codes
        codes.flags.writeable = False
        return codes

    @property
    def nbytes(self) -> int:
        """Bytes of codes, rows, ids, lists and centroids."""
        own = 0 if self.partitions is None else self.partitions.nbytes
        if self.query_map is not None:
            own += self.query_map.slopes.nbytes + self.query_map.bias.nbytes
        return int(self._held.nbytes) + own

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, vectors: ArrayLike | None = None
    ) -> Ids:
        """Add codes and return their ids (n,) int64, in the order given.

        `vectors` (n, d) say which list a code belongs to; they are not kept. Whether there are any
        is decided by the first rows. Without `ids` rows get the next numbers never used before.
        """
        rows = self._checked(codes)
        given = None if ids is None else check_ids(ids, len(rows))
        places: NDArray[Any] = rows
        if vectors is not None:
            places = check_vectors(vectors)
            if len(places) != len(rows):
                raise InvalidInput(
                    f"got {len(places)} vectors for {len(rows)} codes: give one per code"
                )
        with self._change.lock:
            held: Arranged = self._held
            numbers = next_ids(held.next_id, len(rows)) if given is None else given.copy()
            if len(rows):
                partitions = self.partitions or self._learned(places)
                check_places(partitions, places, vectors is not None)
                members, lists = partitions.slots_for(places)
                if held.partitions is None:
                    held = empty_arranged(partitions, self._n_planes, self.n_bytes, held.next_id)
                terms = self.terms_of(rows)
                self._held = with_rows(held, rows, terms, members, lists, numbers)
        return numbers

    def delete(self, ids: ArrayLike) -> None:
        """Remove the codes with these ids; all other ids stay as they are."""
        with self._change.lock:
            rows = self._held.rows_of(check_ids(ids))
            if len(rows):
                self._held = without(self._held, rows)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """Return the codes of these ids, in the order given."""
        held: Arranged = self._held
        return held.codes_at(held.rows_of(check_ids(ids)))

    def rebalance(self, vectors: ArrayLike | None = None, *, n_lists: int | None = None) -> None:
        """Learn the lists anew from all rows: after many were added, or the data drifted.

        `vectors` (len(index), d), in the order of `ids`, are needed where lists are those of
        vectors.
        """
        check_count(n_lists, name="n_lists", or_none=True)
        with self._change.lock:
            held: Arranged = self._held
            if not held.n:
                return
            places: NDArray[Any] = held.codes if vectors is None else check_vectors(vectors)
            if len(places) != held.n:
                raise InvalidInput(f"got {len(places)} vectors for {held.n} codes: give all")
            if vectors is None and self.partitions is not None and not self.partitions.by_code:
                raise InvalidInput(
                    "the lists are those of vectors: give the vectors of all rows, in the order "
                    "of ids"
                )
            before, self.n_lists = self.n_lists, n_lists
            try:
                self._held = self._laid_out(held.codes, places, held.row_ids, held.next_id)
            except BaseException:
                self.n_lists = before
                raise

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        vectors: ArrayLike | None = None,
        kept: NDArray[Any] | None = None,
        probes: int | None = None,
        shortlist: int | tuple[int, int] | None = None,
        margin: float | None = None,
        target_recall: float | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Neighbors:
        """Return the k nearest rows of each query, of those in the nearest lists.

        `queries` are codes (n, n_bytes) uint8, compared by Hamming distance; or `QueryTables`; or
        a pair of both, where the best by Hamming are scored by tables; or, with a model's linear
        map (`for_model`) and `kept`, vectors. `vectors` (n, d) are the queries themselves, which
        say what lists are near; they may be left out where all lists are visited, and where lists
        are those of codes.

        `kept` (len(index), d) float16 or float32, or rows of a small kind, in the order of `ids`,
        orders the best `shortlist` rows (10 k by default; a pair for Hamming, then tables).
        `probes` is the number of lists to visit, None for all; of those, lists further than the
        first by more than `margin` times what the average list is, are left out. Where a `mask`
        allows a share of the rows, as many more lists are visited. `target_recall` chooses all
        three from the curve that `measure` made, and visits lists until enough rows are allowed.
        """
        from sghash.index.lists.asking import asked_of, planned
        from sghash.index.lists.probing import answer, straight

        if mask is None and kept is not None:
            options = (k, probes, shortlist, margin, target_recall)
            found = straight(self, queries, kept, options, threads)
            if found is not None:
                return found
        asked = asked_of(self, self.held, queries, vectors, kept)
        plan = planned(asked, k, probes, shortlist, margin, target_recall)
        return answer(asked, plan, mask, check_threads(threads))[0]

    def measure(
        self,
        queries: Any,
        ground_truth: ArrayLike,
        *,
        vectors: ArrayLike | None = None,
        kept: NDArray[Any] | None = None,
        mask: ArrayLike | None = None,
    ) -> Curve:
        """Measure recall and cost of many settings on held-out queries, and keep the best ones.

        `ground_truth` (n_queries, k) are the true ids. Queries should be like those to come, and
        must not be rows of the index, or rows that `mask` forbids. Needed before `target_recall`.
        """
        from sghash.index.lists.measuring import measured

        self.curve = measured(self, queries, ground_truth, vectors, kept, mask)
        return self.curve

    def explain(self, query: Any, k: int = 10, **options: Any) -> Explanation:
        """Answer one query and say what was visited, what each stage cost, and what to expect.

        The options are those of `search`.
        """
        from sghash.index.lists.measuring import explained

        return explained(self, query, k, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to `path`; an existing file is replaced only by a complete one."""
        with self._change.lock:  # rows that come would go into blocks whose checksums are taken
            write_index(path, self.stored())

    def stored(self) -> StoredIndex:
        """What stands in a file of this index."""
        return stored_of(self._held, self._options(), self._n_planes, self.query_map, self.curve)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index from `path` and check it; `mmap` is that of `CodeIndex.load`."""
        return cls.of_stored(path, read_index(path, cls.kind, mmap=mmap), mmap=mmap)

    @classmethod
    def of_stored(cls, path: str | os.PathLike[str], stored: StoredIndex, *, mmap: bool) -> Self:
        """An index of what the file at `path` holds, checked; codes only without `mmap`."""
        try:
            numbers = read_numbers(stored.parts)
            index = cls(
                **stored.options, n_lists=int(numbers["n_lists"]) or None,
                metric=METRICS[int(numbers["metric"])], spill=numbers["spill"],
                random_state=int(numbers["random_state"]),
            )  # fmt: skip
            held = arranged_of(
                stored.codes, stored.parts, numbers, index.n_bytes, index._n_planes,
                stored.row_ids, stored.next_id,
            )  # fmt: skip
            check_copies(held, index.rules.own_tables())
            if not mmap:
                index._checked(held.codes)
            index._held = held
            index.query_map = map_of(stored.parts, index.n_bits, held.partitions)
            if "curve" in stored.parts:
                index.curve = curve_of(stored.parts["curve"])
        except KeyError as error:
            raise BadFile(f"{path} is damaged (it lacks {error}): restore it") from error
        except (SghashError, ValueError, TypeError, OverflowError) as error:
            raise BadFile(f"{path} is damaged ({error}): restore it from a copy") from error
        return index

    def over(self, codes: Codes, row_ids: Any, *, vectors: Any = None) -> Self:
        """Return such an index over a copy of these rows; `vectors` may be read in blocks."""
        other = self.like()
        if len(codes):
            places = codes if vectors is None else vectors
            other._held = other._laid_out(codes, places, row_ids, row_ids.last + 1)
        return other

    def like(self, held: Arranged | None = None) -> Self:
        """Return an index with the same options and way to score: empty, or holding these rows."""
        other = type(self)(**self._options())
        other.query_map, other._held = self.query_map, other._held if held is None else held
        return other

    def _laid_out(self, codes: Codes, places: Any, ids: Any, next_id: int) -> Arranged:
        partitions = self._learned(places)
        return arrange_all(codes, self.terms_of(codes), places, partitions, ids, next_id)

    def _learned(self, places: NDArray[Any]) -> Partitions:
        return learn(
            places, self.n_lists, n_bits=self.n_bits or 8 * self.n_bytes, metric=self.metric,
            spill=self.spill, random_state=self.random_state,
        )  # fmt: skip

    def terms_of(self, codes: Codes) -> Vectors | None:
        """What codes add to every score by themselves; None where that is nothing."""
        if self.gram is None:
            return None
        from sghash.kernels.tables.terms import code_terms

        tables = self.rules.own_tables()
        assert tables is not None  # there is a gram
        return code_terms(codes, tables)

    def _checked(self, codes: ArrayLike) -> Codes:
        return check_codes(codes, self.n_bits or 8 * self.n_bytes)

    def _options(self) -> dict[str, Any]:
        options = {"n_bytes": self.n_bytes, "n_bits": self.n_bits, "gram": self.gram}
        options |= {"n_lists": self.n_lists, "random_state": self.random_state}
        return {name: value for name, value in options.items() if value is not None} | {
            "metric": self.metric, "spill": self.spill,
        }  # fmt: skip

    def _leave_unchecked(self) -> None:
        """Bits of the padding have zeros in every table; Hamming counts whole bytes."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": self._held.alone(), "_change": None, "prepared": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _change=Guard())
