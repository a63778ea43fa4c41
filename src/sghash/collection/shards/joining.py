"""Several moments as one: a search sees the segments of all shards as those of one collection.

So an answer cannot depend on how rows are divided. What must hold for that is checked here: one
model, one metric, the same vectors kept, no id and no key twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from sghash.collection.moment import Moment
from sghash.collection.shared_keys import shared_key
from sghash.collection.storage.manifest import Manifest
from sghash.collection.storage.segments import Segment
from sghash.collection.storage.state import State
from sghash.errors import InvalidInput
from sghash.validation import Ids

_SHARED = ("fingerprint", "kind", "n_bits", "width", "metric", "keep_vectors")
_CHUNK = 1 << 20


def joined_moment(moments: Sequence[Moment], names: Sequence[str]) -> Moment:
    """All rows of some shards as one moment, with the model of the first."""
    states = [moment.state for moment in moments]
    for state, name in zip(states[1:], names[1:], strict=True):
        for field in _SHARED:
            own, other = (getattr(s.manifest, field) for s in (state, states[0]))
            if own != other:
                raise InvalidInput(
                    f"the shard {name} has another {field} than {names[0]}: shards share one model "
                    "and its options"
                )
    for left, right in combinations(range(len(states)), 2):
        _refuse_shared_ids(states[left], states[right], names[left], names[right])
    twice = shared_key([state.segments() for state in states])
    if twice is not None:
        raise InvalidInput(
            f"key {twice.key!r} is in the shards {names[twice.first]} and {names[twice.second]}: "
            "keys must be unique among all shards"
        )
    state = State(
        _joined_manifest(states),
        tuple(segment for state in states for segment in state.stored),
        tuple(segment for state in states for segment in state.runs),
        log_end=sum(state.log_end for state in states),
        n_records=sum(state.n_records for state in states),
        next_id=max(state.next_id for state in states),
        kinds=joined_kinds([state.kinds for state in states], names),
        parts=states,
    )
    return Moment(state, moments[0].holder)


def _joined_manifest(states: Sequence[State]) -> Manifest:
    """What one collection of all rows would say; a plan where all shards have the same."""
    manifests = [state.manifest for state in states]
    first, jobs = manifests[0], {}
    for manifest in reversed(manifests):
        jobs.update(manifest.jobs)
    return replace(
        first,
        segments=tuple(entry for manifest in manifests for entry in manifest.segments),
        n_rows=sum(manifest.n_rows for manifest in manifests),
        next_id=max(state.next_id for state in states),
        plan=first.plan if all(m.plan == first.plan for m in manifests) else None,
        jobs=jobs,
    )


def joined_kinds(parts: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, str]:
    """The kinds of all columns that any shard has; refuse one of two kinds."""
    kinds: dict[str, str] = {}
    for own, name in zip(parts, names, strict=True):
        for column, kind in own.items():
            if kinds.setdefault(column, kind) != kind:
                raise InvalidInput(
                    f"column {column!r} of the shard {name} is {kind}, elsewhere {kinds[column]}: "
                    "a column is of one kind in all shards"
                )
    return kinds


def _refuse_shared_ids(one: State, other: State, name: str, other_name: str) -> None:
    for left in one.segments():
        for right in other.segments():
            small, large = sorted((left, right), key=lambda segment: segment.n_alive)
            twice = _first_shared(small, large)
            if twice is not None:
                raise InvalidInput(
                    f"id {twice} is in the shards {name} and {other_name}: ids must be unique "
                    "among all shards"
                )


def _first_shared(small: Segment, large: Segment) -> int | None:
    """An id that is alive in both, None where there is none; far ids are not looked at."""
    a, b = small.rows.index.row_ids, large.rows.index.row_ids
    if not a.n or not b.n or a.last < b.first or b.last < a.first:
        return None
    live = small.live_rows()
    for start in range(0, len(live), _CHUNK):
        ids: Ids = small.rows.ids_at(live[start : start + _CHUNK])
        found = ids[large.find(ids) >= 0]
        if len(found):
            return int(found[0])
    return None
