"""What a collection must hold: a plain dictionary with the meaning of every change.

Whatever happened to a writer, the collection must be in one of a few `Worlds`: all acknowledged
changes, with or without all of a change that failed or was cut off.
"""

from __future__ import annotations

import dataclasses
import traceback
from functools import cached_property
from typing import NamedTuple

import numpy as np
from pool import form_of, pool


class Fault(Exception):
    """Something that must never happen: its kind, and a sentence about this case."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


def text_of(error):
    """Where an error came from, in few lines."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(line for line in lines if line.strip(" ^~"))[-2000:]


class Row(NamedTuple):
    serial: int
    rounded: int
    key: str | None
    meta: tuple


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """Rows by id; the next automatic id lies between `low` and `high`.

    `low` was never acknowledged for any row; `high` was not even tried by a change that failed.
    """

    keep: str | None
    metric: str
    model: int = 0
    rows: dict = dataclasses.field(default_factory=dict)
    low: int = 0
    high: int = 0

    @cached_property
    def keys(self):
        return {row.key: id_ for id_, row in self.rows.items() if row.key is not None}

    @cached_property
    def ids(self):
        return np.asarray(sorted(self.rows), dtype=np.int64)

    @cached_property
    def _places(self):
        rows = [self.rows[id_] for id_ in self.ids.tolist()]
        return [row.serial for row in rows], [row.rounded for row in rows]

    @property
    def serials(self):
        return self._places[0]

    @cached_property
    def codes(self):
        serials, rounded = self._places
        both = pool().codes[self.model]
        return np.stack(both)[rounded, serials]

    @cached_property
    def decoded(self):
        serials, rounded = self._places
        both = pool().decoded[self.model]
        return np.stack(both)[rounded, serials]

    @cached_property
    def vectors(self):
        if self.keep is None:
            return None
        return pool().given_back[self.keep][self._places[0]]

    @cached_property
    def contents(self):
        """All that can be got out of a collection, as `checking.contents` finds it."""
        codes = [code.tobytes() for code in self.codes] if self.rows else []
        vectors = [None] * len(codes)
        if self.keep is not None and self.rows:
            vectors = [vector.tobytes() for vector in self.vectors]
        rows = [self.rows[id_] for id_ in self.ids.tolist()]
        found = zip(self.ids.tolist(), codes, vectors, rows, strict=True)
        return (
            pool().models[self.model].fingerprint_,
            {id_: (code, vector, row.key, row.meta) for id_, code, vector, row in found},
        )

    def ids_for(self, op, start):
        """Ids that the rows of an add or upsert get if the next new number is `start`."""
        if op["ids"] is not None:
            return op["ids"]
        ids = []
        for key in op["keys"] or [None] * len(op["serials"]):
            known = self.keys.get(key) if key is not None and op["name"] == "upsert" else None
            ids.append(start if known is None else known)
            start += known is None
        return ids

    def outcomes(self, op):
        """Every state that this change may lead to."""
        if op["name"] not in CHANGES:
            return []
        if op["name"] in ("delete", "reencode"):
            return [self.after(op)]
        if op.get("block"):
            return self._prefixes(op)
        starts = range(self.low, self.high + 1) if op["ids"] is None else [0]
        return [self.after(op, self.ids_for(op, start)) for start in starts]

    def _prefixes(self, op):
        """Vectors that are read from a file are added block by block."""
        every = []
        for n in range(op["block"], len(op["serials"]) + op["block"], op["block"]):
            meta = op["meta"] and {name: values[:n] for name, values in op["meta"].items()}
            keys = op["keys"] and op["keys"][:n]
            first = {**op, "serials": op["serials"][:n], "meta": meta, "keys": keys, "block": None}
            every += self.outcomes(first)
        return every

    def allows(self, op, ids):
        """Whether an add or upsert may have returned these ids."""
        return any(self.ids_for(op, start) == ids for start in range(self.low, self.high + 1))

    def after(self, op, ids=None):
        """The state that follows a change of which all has taken effect."""
        if op["name"] == "delete":
            gone = set(op["ids"] or [self.keys[key] for key in op["keys"]])
            rows = {id_: row for id_, row in self.rows.items() if id_ not in gone}
            return dataclasses.replace(self, rows=rows)
        if op["name"] == "reencode":
            rounded = form_of(self.keep)
            rows = {id_: row._replace(rounded=rounded) for id_, row in self.rows.items()}
            return dataclasses.replace(self, rows=rows, model=op["model"])
        keys = op["keys"] or [None] * len(op["serials"])
        new = {
            id_: Row(serial, 0, key, _meta(op["meta"], place))
            for place, (id_, serial, key) in enumerate(zip(ids, op["serials"], keys, strict=True))
        }
        low = max(self.low, max(ids, default=-1) + 1)
        return dataclasses.replace(
            self, rows={**self.rows, **new}, low=low, high=max(self.high, low)
        )

    def without(self, op):
        """The same rows after a change that failed: numbers that it tried may be left out."""
        if "serials" not in op:
            return self
        tried = self.high + len(op["serials"]) if op["ids"] is None else max(op["ids"]) + 1
        return dataclasses.replace(self, high=max(self.high, tried))


CHANGES = ("add", "add_codes", "upsert", "delete", "reencode")


def _meta(columns, place):
    if columns is None:
        return ()
    values = ((name, columns[name][place]) for name in sorted(columns))
    return tuple((name, value) for name, value in values if value is not None)


class Worlds:
    """The states that a collection may be in, given what its writer has acknowledged."""

    def __init__(self, states):
        self.states, self.under_way = list(states), None

    def begin(self, op):
        self.under_way = op

    def done(self, ids=None):
        """The change was acknowledged, with these ids for its rows."""
        op, self.under_way = self.under_way, None
        if op["name"] in ("delete", "reencode"):
            self.states = [state.after(op) for state in self.states]
        elif op["name"] in CHANGES:
            allowed = [state for state in self.states if state.allows(op, ids)]
            if not allowed:
                low = [state.low for state in self.states]
                raise Fault("wrong ids", f"{op['name']} returned {ids}, next numbers are {low}")
            self.states = [state.after(op, ids) for state in allowed]

    def failed(self):
        """The change raised an error: it may have taken effect or not."""
        self.states, self.under_way = self.possible(), None

    def possible(self):
        if self.under_way is None or self.under_way["name"] not in CHANGES:
            return self.states
        with_it = [after for state in self.states for after in state.outcomes(self.under_way)]
        return [state.without(self.under_way) for state in self.states] + with_it

    def settle(self, found):
        """Keep the states that are what was found; `found` is what the disk will stay at."""
        same = [
            state
            for state in self.possible()
            if state.rows.keys() == found[1].keys() and state.contents == found
        ]
        self.under_way = None
        self.states = same[:1]
        if len(same) > 1:
            low, high = min(state.low for state in same), max(state.high for state in same)
            self.states = [dataclasses.replace(same[0], low=low, high=high)]
