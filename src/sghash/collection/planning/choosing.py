"""The choice: the fewest bytes whose kept vectors reach the target, then the code that is quickest.

Of codes that are about as quick the shortest is taken.

Where no vectors are kept, or none fit the bytes, the code alone decides: the shortest that reaches
the target, or the best there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sghash.collection.lists.targets import FEW_ROWS
from sghash.collection.planning.looking import Look
from sghash.collection.planning.pipelines import (
    Pipeline,
    binary,
    bytes_of,
    codes_alone,
    codes_for_shortlists,
    kinds_to_try,
)
from sghash.collection.planning.plan import Tried
from sghash.collection.planning.trials import LENGTHS, Ranked, fidelity, microseconds, ranked
from sghash.collection.storage.manifest import AUTO
from sghash.errors import InvalidInput

#: Codes that cost at most so many times what the quickest does are as quick: bytes then decide.
AS_QUICK = 1.15
#: What lists and shortlists may lose on top of what the kept vectors do.
LEEWAY = 0.004
# Beyond that more bytes buy nothing.
_AS_GOOD_AS_EXACT = 0.9995
# A share of what the kept vectors find that shortlists are tried for.
_SHORTLIST_RECALL = 0.99


class Choice(NamedTuple):
    """The pipeline, and all that was tried."""

    pipeline: Pipeline
    tried: list[Tried]


class Wanted(NamedTuple):
    """What the caller asked for."""

    target_recall: float
    k: int
    bytes_per_vector: int | None
    keep_vectors: str | None
    random_state: int


class _Kept(NamedTuple):
    kind: str
    n_bytes: int
    recall: float
    reaches: bool


def choose(look: Look, wanted: Wanted, step: Callable[[str], None]) -> Choice:
    """Try what can win and choose; `step` is told what is tried next."""
    kept = _kept_kinds(look, wanted, step)
    enough = next((one for one in kept if one.reaches), None)
    if enough is not None:
        return _with_vectors(look, wanted, kept, enough, step)
    if kept and wanted.bytes_per_vector is None:
        return _with_vectors(look, wanted, kept, kept[-1], step)
    return _alone(look, wanted, kept, step)


def _kept_kinds(look: Look, wanted: Wanted, step: Callable[[str], None]) -> list[_Kept]:
    """Every kind of kept vectors that fits the bytes beside the shortest code."""
    found: list[_Kept] = []
    shortest = codes_for_shortlists(None)[0].code_bytes
    for kind in kinds_to_try(wanted.keep_vectors):
        n_bytes = bytes_of(look.width, kind)
        if wanted.bytes_per_vector is not None and n_bytes + shortest > wanted.bytes_per_vector:
            continue
        if wanted.keep_vectors == AUTO and found and found[-1].recall >= _AS_GOOD_AS_EXACT:
            break
        step(f"{kind} vectors")
        try:
            recall, error = fidelity(look, kind, wanted.k)
        except InvalidInput:  # numbers too large for it
            if wanted.keep_vectors != AUTO:
                raise
            continue
        limit = min(1.0, wanted.target_recall + LEEWAY)
        found.append(_Kept(kind, n_bytes, recall, recall >= 1 or recall - error >= limit))
    return found


def _with_vectors(
    look: Look, wanted: Wanted, kept: list[_Kept], chosen: _Kept, step: Callable[[str], None]
) -> Choice:
    most = None
    if wanted.bytes_per_vector is not None:
        most = wanted.bytes_per_vector - chosen.n_bytes
    tried = [_kept_line(one, chosen) for one in kept]
    if look.n <= FEW_ROWS:  # all are compared by their kept vectors: no code needs to be tried
        pipeline = binary(64)._replace(keep=chosen.kind, kept_bytes=chosen.n_bytes)
        return Choice(pipeline, tried)
    options = []
    for code in codes_for_shortlists(most):
        step(code.code_name)
        pipeline = code._replace(keep=chosen.kind, kept_bytes=chosen.n_bytes)
        found = ranked(look, code, wanted.k, wanted.random_state)
        if found is not None:
            options.append((_cost(look, wanted, pipeline, found), pipeline, found))
    least = min(cost for cost, _, _ in options)
    quick = [option for option in options if option[0] <= AS_QUICK * least]
    cost, best, _ = min(quick, key=lambda option: (option[1].n_bytes, option[0]))
    for spent, pipeline, found in options:
        length = _length(found)
        verdict = f"{spent / cost:.1f} x the cost"
        if pipeline is best:
            verdict = "chosen: the quickest" if cost == least else "chosen: as quick, and smaller"
        recall = chosen.recall * found.recall[length]
        tried.append(
            Tried(pipeline.name, pipeline.code_bytes, chosen.n_bytes, recall, spent, verdict)
        )
    return Choice(best, tried)


def _kept_line(one: _Kept, chosen: _Kept) -> Tried:
    if one is chosen:
        verdict = "kept: the fewest bytes that reach it" if one.reaches else "kept: the best"
    else:
        verdict = "more bytes than needed" if one.reaches else "misses the target"
    return Tried(f"every row by {one.kind} vectors", 0, one.n_bytes, one.recall, None, verdict)


def _length(found: Ranked) -> int:
    """Rows of the shortlist that a search would need."""
    length = found.length_for(_SHORTLIST_RECALL)
    return length or max(found.recall)


def _cost(look: Look, wanted: Wanted, pipeline: Pipeline, found: Ranked) -> float:
    length = found.length_for(_SHORTLIST_RECALL)
    # What no list that was tried has needs one that was not.
    rows = 4 * LENGTHS[-1] * wanted.k if length is None else length
    return microseconds(pipeline, look.n, rows, found.n_rows)


def _alone(look: Look, wanted: Wanted, kept: list[_Kept], step: Callable[[str], None]) -> Choice:
    """The code decides: the shortest that reaches the target, else the best."""
    options = []
    for pipeline in codes_alone(wanted.bytes_per_vector, look.width):
        step(pipeline.code_name)
        found = ranked(look, pipeline, wanted.k, wanted.random_state)
        if found is not None:
            spent = microseconds(pipeline, look.n, 0, found.n_rows)
            options.append((found.alone(look.n), spent, pipeline))
    reaching = [option for option in options if option[0] >= wanted.target_recall]
    if reaching:
        recall, _, best = min(reaching, key=lambda option: (option[2].n_bytes, -option[0]))
    else:
        recall, _, best = max(options, key=lambda option: (option[0], -option[2].n_bytes))
    better = max(kept, key=lambda one: one.recall, default=None)
    if not reaching and better is not None and better.recall > recall:
        return _with_vectors(look, wanted, kept, better, step)
    lines = []
    for found_recall, spent, pipeline in options:
        if pipeline is best:
            verdict = "chosen: the shortest that reaches it" if reaching else "chosen: the best"
        elif found_recall >= wanted.target_recall:
            verdict = "more bytes than needed"
        else:
            verdict = "misses the target"
        lines.append(Tried(pipeline.name, pipeline.code_bytes, 0, found_recall, spent, verdict))
    return Choice(best, lines)
