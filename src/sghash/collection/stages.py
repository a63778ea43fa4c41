"""How a search goes: which stages it has, and how many rows each lets through."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sghash.collection.storage.manifest import Manifest
from sghash.errors import InvalidInput
from sghash.validation import check_choice

RERANKS = ("none", "decoder", "vectors")
# Rows per neighbour asked for that a stage lets through unless told otherwise.
LENGTH = 10
ALL = "all"


class Stages(NamedTuple):
    """What decides in the end, and what the stages before it let through.

    `by_hamming` None lets the decoder score every row; `by_decoder` None skips the decoder.
    """

    rerank: str
    k: int
    by_hamming: int | None
    by_decoder: int | None

    @property
    def needs_decoder(self) -> bool:
        """Whether any stage scores codes."""
        return self.by_decoder is not None


def plan_stages(rerank: str, k: int, shortlist: Any, manifest: Manifest) -> Stages:
    """Check the options of a search and turn them into stages."""
    check_choice(rerank, RERANKS, name="rerank")
    if rerank == "none":
        if shortlist is not None:
            raise InvalidInput('a shortlist needs rerank="decoder" or rerank="vectors"')
        return Stages(rerank, k, k, None)
    if rerank == "decoder":
        return Stages(rerank, k, _length(shortlist, k), k)
    if manifest.keep_vectors is None:
        raise InvalidInput(
            'no vectors are kept here: search with rerank="decoder", or create the collection '
            'with keep_vectors="float16"'
        )
    if isinstance(shortlist, tuple):
        if len(shortlist) != 2:
            raise InvalidInput(f"a pair of shortlists was expected, got {shortlist!r}")
        by_decoder = _length(shortlist[1], k)
        if by_decoder is None:
            raise InvalidInput("the decoder's own shortlist must be a number")
        return Stages(rerank, k, _length(shortlist[0], by_decoder), by_decoder)
    by_hamming = _length(shortlist, k)
    return Stages(rerank, k, by_hamming, LENGTH * k if by_hamming is None else None)


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
