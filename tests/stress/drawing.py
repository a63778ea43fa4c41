"""Random operations. Each is a dictionary of plain values, so that it can pass through a pipe.

They are drawn so that they are good in every state the collection may be in; the name "bad" is
for those that must be refused in every state.
"""

from __future__ import annotations

import numpy as np
from answers import CONDITIONS
from pool import BLOCK, SIZE, pool
from twins import has_tables

ROWS = 120  # more than this, and rows are deleted rather than added
LARGE = 75  # rows that go straight to a segment
WRITES = {
    "add": 14, "add ids": 8, "add keys": 10, "add large": 5, "add codes": 8, "upsert": 12,
    "upsert keys": 8, "upsert large": 2, "delete": 14, "delete keys": 4, "compact": 3,
    "reencode": 4, "reopen": 3, "bad": 2, "backup": 2, "add blocks": 4, "add job": 6,
    "balk": 2,
}  # fmt: skip
READS = {
    "search": 12, "search codes": 1, "get": 3, "get keys": 2, "range": 3, "join": 1, "len": 1,
    "ids": 1, "stats": 1, "verify": 2, "reader": 8, "fresh": 4, "in memory": 2,
}  # fmt: skip


def draw(rng, states, weights):
    """An operation that makes sense in all of `states`."""
    weights = dict(weights)
    if max(len(state.rows) for state in states) > ROWS:
        weights = {"delete": 1, "compact": 0.2, "reencode": 0.1}
    names = list(weights)
    total = sum(weights.values())
    while True:
        name = str(rng.choice(names, p=[weights[n] / total for n in names]))
        op = _DRAWS[name](rng, states)
        if op is not None:
            return op


def metadata(rng, n, *, columns=None, long=False):
    """Columns with gaps, at least one value in each; None for no metadata."""
    kinds = {
        "n": lambda: int(rng.integers(10)),
        "x": lambda: int(rng.integers(40)) / 4,
        "lang": lambda: str(rng.choice(["de", "en", "", "ü", "日本"])),
        "flag": lambda: bool(rng.integers(2)),
    }
    if columns is None:
        columns = [name for name in kinds if rng.random() < 0.5]
    values = {
        name: [kinds[name]() if place == 0 or rng.random() < 0.7 else None for place in range(n)]
        for name in columns
    }
    if long:
        values["note"] = [f"{serial:060d}" for serial in rng.integers(1000, size=n).tolist()]
    return values or None


def serials(rng, n):
    return rng.integers(SIZE, size=n).tolist()


def queries(rng):
    return serials(rng, int(rng.integers(1, 4)))


def _common(states):
    """Ids alive in all states."""
    alive = set(states[0].rows)
    for state in states[1:]:
        alive &= set(state.rows)
    return sorted(alive)


def _free(states):
    """Ids that no state uses, among them some that were deleted and some never used."""
    used = set().union(*(state.rows for state in states))
    return [id_ for id_ in range(max(state.high for state in states) + 6) if id_ not in used]


def _common_keys(states):
    alive = set(states[0].keys)
    for state in states[1:]:
        alive &= set(state.keys)
    return sorted(alive)


def _new_keys(rng, states, n):
    used = set().union(*(state.keys for state in states))
    wanted = [f"k{i}" for i in rng.permutation(300)[: 3 * n].tolist()]
    return [key for key in wanted if key not in used][:n]


def _kinds(states):
    """Whether codes name rows of tables, in all states (True), in none (False), or in some."""
    return {has_tables(pool().models[state.model]) for state in states}


def _some(rng, items, least, most):
    n = min(len(items), int(rng.integers(least, most + 1)))
    return [items[i] for i in rng.choice(len(items), n, replace=False).tolist()]


def change(name, rng, n, *, ids=None, keys=None, **options):
    return {
        "name": name, "serials": serials(rng, n), "ids": ids, "keys": keys,
        "meta": metadata(rng, n, **options),
    }  # fmt: skip


def _add(rng, states):
    return change("add", rng, int(rng.integers(1, 6)))


def _add_ids(rng, states):
    ids = _some(rng, _free(states), 1, 5)
    return change("add", rng, len(ids), ids=ids)


def _add_keys(rng, states):
    keys = _new_keys(rng, states, int(rng.integers(1, 5)))
    return change("add", rng, len(keys), keys=keys)


def _add_large(rng, states):
    if max(len(state.rows) for state in states) > ROWS - LARGE:
        return None
    return change("add", rng, LARGE, long=True)


def _add_blocks(rng, states):
    n = int(rng.integers(2, 20))
    keys = _new_keys(rng, states, n) if rng.random() < 0.3 else None
    return {**change("add", rng, n, keys=keys), "block": BLOCK}


def _add_job(rng, states):
    """Rows that workers encode, in parts of this many, and one commit brings."""
    op = change("add", rng, int(rng.integers(1, 12)))
    return {**op, "meta": None, "job": int(rng.integers(1, 6))}


def _balk(rng, states):
    """A change whose progress is watched by a function that fails."""
    names = [_add_large, _upsert, _named("compact"), _reencode]
    op = names[rng.integers(len(names))](rng, states)
    return None if op is None else {**op, "balk": int(rng.integers(1, 4))}


def _add_codes(rng, states):
    if states[0].keep is not None or len({state.model for state in states}) > 1:
        return None
    op = change("add", rng, int(rng.integers(1, 6)))
    return {**op, "name": "add_codes", "model": states[0].model}


def _upsert(rng, states):
    ids = _some(rng, _common(states), 0, 3) + _some(rng, _free(states), 1, 2)
    return change("upsert", rng, len(ids), ids=ids)


def _upsert_keys(rng, states):
    keys = _some(rng, _common_keys(states), 0, 3) + _new_keys(rng, states, 1)
    return change("upsert", rng, len(keys), keys=keys)


def _upsert_large(rng, states):
    ids = _some(rng, list(range(LARGE + 20)), LARGE, LARGE)
    return change("upsert", rng, LARGE, ids=ids, long=True)


def _delete(rng, states):
    ids = _some(rng, _common(states), 1, 40 if rng.random() < 0.2 else 6)
    return {"name": "delete", "ids": ids, "keys": None} if ids else None


def _delete_keys(rng, states):
    keys = _some(rng, _common_keys(states), 1, 3)
    return {"name": "delete", "ids": None, "keys": keys} if keys else None


def _reencode(rng, states):
    if states[0].keep is None:
        return None
    return {"name": "reencode", "model": int(rng.integers(len(pool().models)))}


def _bad(rng, states):
    ids, keys = _common(states), _common_keys(states)
    kinds = ["twice", "nan", "width", "column", "unknown"]
    kinds += ["used"] * bool(ids) + ["used key"] * bool(keys)
    kinds += ["range", "join", "search codes", "shortlist"] * (_kinds(states) == {True})
    no_rows = len({state.model for state in states}) == 1 and states[0].keep is None
    kinds += ["no centroid"] * (no_rows and _kinds(states) == {True})
    kind = str(rng.choice(kinds))
    id_, key = (ids or [0])[0], (keys or [""])[0]
    return {"name": "bad", "kind": kind, "serials": [1, 2], "id": id_, "key": key,
            "model": states[0].model}  # fmt: skip


def search(rng, states, *, plain=False):
    """A search whose shortlist holds every row, so that NumPy can tell the answer."""
    op = {"name": "search", "queries": queries(rng), "k": int(rng.integers(1, 20)), "threads": 1}
    reranks = ["none", "none", "decoder"] + ["vectors"] * (states[0].keep is not None)
    op["rerank"] = str(rng.choice(reranks))
    op["shortlist"] = None if op["rerank"] == "none" else 10_000
    if op["rerank"] == "decoder" and (rng.random() < 0.3 or _kinds(states) != {False}):
        op["shortlist"] = "all"
    if not plain and rng.random() < 0.05:
        op["threads"] = 2
    place = rng.random()
    if place < 0.2:
        op["where"] = str(rng.choice(list(CONDITIONS)))
    elif place < 0.3 and not plain and _common(states):
        op["only"] = _some(rng, _common(states), 1, 20)
        op["mask"] = bool(rng.integers(2))
    return op


def _search_codes(rng, states):
    if len({state.model for state in states}) > 1 or _kinds(states) != {False}:
        return None
    model = states[0].model
    return {"name": "search_codes", "queries": queries(rng), "k": 5, "model": model,
            "rerank": "none"}  # fmt: skip


def ranges(rng, states):
    if _kinds(states) != {False}:
        return None
    return {"name": "range", "queries": queries(rng), "radius": int(rng.integers(9))}


def _get(rng, states):
    ids = _some(rng, _common(states), 1, 30)
    return {"name": "get", "ids": ids, "keys": None} if ids else None


def _get_keys(rng, states):
    keys = _some(rng, _common_keys(states), 1, 10)
    return {"name": "get", "ids": None, "keys": keys} if keys else None


def _join(rng, states):
    if _kinds(states) != {False}:
        return None
    return {"name": "join", "radius": int(rng.integers(4))}


def _named(name):
    return lambda rng, states: {"name": name}


_DRAWS = {
    "add": _add, "add ids": _add_ids, "add keys": _add_keys, "add large": _add_large,
    "add codes": _add_codes, "add blocks": _add_blocks, "add job": _add_job,
    "balk": _balk,
    "upsert": _upsert, "upsert keys": _upsert_keys,
    "upsert large": _upsert_large, "delete": _delete, "delete keys": _delete_keys,
    "reencode": _reencode, "bad": _bad, "search": search, "search codes": _search_codes,
    "get": _get, "get keys": _get_keys, "range": ranges,
    "join": _join,
    **{name: _named(name) for name in ("compact", "reopen", "backup", "len", "ids", "stats",
                                       "verify", "reader", "fresh", "in memory")},
}  # fmt: skip


def first_change(rng):
    """The rows that a program begins with: every column has a value somewhere."""
    columns = ["n", "x", "lang", "flag"]
    keys = [f"k{i}" for i in range(6)]
    return change("add", rng, 6, keys=keys, columns=columns)


def fingerprint(model):
    return pool().models[model].fingerprint_


def generator(seed):
    return np.random.default_rng(seed)
