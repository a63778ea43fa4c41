"""How a search goes: which stages it has, and how many rows each lets through."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sghash.errors import InvalidInput
from sghash.validation import check_choice

RERANKS = ("none", "decoder", "vectors")
# Rows per neighbour asked for that a stage lets through unless told otherwise.
LENGTH = 10
ALL = "all"


class Stages(NamedTuple):
    """What decides in the end, and what the stages before it let through.

    `last` is "hamming", "tables" or "vectors". `by_hamming` None lets the tables score every row;
    `by_tables` None skips the tables.
    """

    last: str
    k: int
    by_hamming: int | None
    by_tables: int | None

    @property
    def needs_codes(self) -> bool:
        """Whether any stage compares codes with codes."""
        return self.by_hamming is not None

    @property
    def needs_tables(self) -> bool:
        """Whether any stage scores codes."""
        return self.by_tables is not None


def plan_stages(
    rerank: str, k: int, shortlist: Any, *, kind: str = "hamming", has_vectors: bool = True
) -> Stages:
    """Check the options of a search and turn them into stages.

    `kind` is that of the index: codes of the kind "tables" are not compared with each other, so
    tables score every one of them.
    """
    check_choice(rerank, RERANKS, name="rerank")
    if rerank == "vectors" and not has_vectors:
        raise InvalidInput(
            'no vectors are kept here: search with rerank="decoder", or create the collection '
            'with keep_vectors="float16"'
        )
    if kind == "tables":
        return _by_tables(rerank, k, shortlist)
    if rerank == "none":
        if shortlist is not None:
            raise InvalidInput('a shortlist needs rerank="decoder" or rerank="vectors"')
        return Stages("hamming", k, k, None)
    if rerank == "decoder":
        return Stages("tables", k, _length(shortlist, k), k)
    if isinstance(shortlist, tuple):
        first, by_tables = _pair(shortlist, k)
        return Stages("vectors", k, _length(first, by_tables), by_tables)
    by_hamming = _length(shortlist, k)
    return Stages("vectors", k, by_hamming, LENGTH * k if by_hamming is None else None)


def _by_tables(rerank: str, k: int, shortlist: Any) -> Stages:
    """Stages where every code is scored: only kept vectors can follow."""
    if rerank != "vectors":
        if shortlist not in (None, ALL):
            raise InvalidInput(
                "every code is scored here, so there is no shortlist: leave it out, or keep "
                'vectors and use rerank="vectors"'
            )
        return Stages("tables", k, None, k)
    if isinstance(shortlist, tuple):
        first, by_tables = _pair(shortlist, k)
        if first != ALL:
            raise InvalidInput(
                f'every code is scored here: the first shortlist must be "all", got {first!r}'
            )
        return Stages("vectors", k, None, by_tables)
    length = _length(shortlist, k)
    return Stages("vectors", k, None, LENGTH * k if length is None else length)


def _pair(shortlist: tuple[Any, ...], k: int) -> tuple[Any, int]:
    if len(shortlist) != 2:
        raise InvalidInput(f"a pair of shortlists was expected, got {shortlist!r}")
    by_tables = _length(shortlist[1], k)
    if by_tables is None:
        raise InvalidInput("the decoder's own shortlist must be a number")
    return shortlist[0], by_tables


def _length(shortlist: Any, k: int) -> int | None:
    """A number of rows, at least k; None for all."""
    if shortlist is None:
        return LENGTH * k
    if isinstance(shortlist, str) and shortlist == ALL:
        return None
    if isinstance(shortlist, bool) or not isinstance(shortlist, (int, np.integer)):
        raise InvalidInput(f'shortlist must be a whole number, "all" or None, got {shortlist!r}')
    if shortlist < k:
        raise InvalidInput(f"a shortlist of {shortlist} cannot give {k} neighbours")
    return int(shortlist)
