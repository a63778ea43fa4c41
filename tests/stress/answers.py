"""What a collection must answer, computed by NumPy from the reference."""

from __future__ import annotations

import numpy as np
from pool import pool
from twins import has_tables, nearest_by_tables

from sghash.kernels.reference import small
from sghash.kernels.vectors.kinds import SMALL

LAST = np.iinfo(np.int32).max
# What a condition on metadata selects, as Python would say it; a gap satisfies no comparison.
CONDITIONS = {
    "n >= 5": lambda row: row.get("n") is not None and row["n"] >= 5,
    "lang == 'de' or flag": lambda row: row.get("lang") == "de" or row.get("flag") is True,
    "not n < 3": lambda row: row.get("n") is None or row["n"] >= 3,
    "x == None": lambda row: row.get("x") is None,
    "n in (1, 2, 7) and lang != 'en'": lambda row: (
        row.get("n") in (1, 2, 7) and row.get("lang") not in ("en", None)
    ),
}


def same(found, expected):
    """Whether two answers are equal to the last bit, their types as well."""
    return all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(found, expected, strict=True)
    )


def distances_to(codes, query_codes):
    """Hamming distances (n_queries, n)."""
    if not len(codes):
        return np.empty((len(query_codes), 0), dtype=np.int32)
    return np.bitwise_count(codes[None] ^ query_codes[:, None]).sum(axis=2, dtype=np.int32)


def nearest(ids, codes, query_codes, k):
    """The k nearest by (distance, id), padded: distances and ids. `ids` rise."""
    every = distances_to(codes, query_codes)
    order = np.argsort(every, axis=1, kind="stable")[:, :k]
    distances = np.full((len(query_codes), k), LAST, dtype=np.int32)
    chosen = np.full((len(query_codes), k), -1, dtype=np.int64)
    distances[:, : order.shape[1]] = np.take_along_axis(every, order, axis=1)
    chosen[:, : order.shape[1]] = ids[order]
    return distances, chosen


def allowed(state, op):
    """Which rows of a state a search may return, as places in `state.ids`."""
    if op.get("where") is not None:
        holds = CONDITIONS[op["where"]]
        good = [holds(dict(state.rows[id_].meta)) for id_ in state.ids.tolist()]
        return np.flatnonzero(np.asarray(good, dtype=bool))
    if op.get("only") is not None:
        return np.flatnonzero(np.isin(state.ids, op["only"]))
    return np.arange(len(state.ids))


def matches(op, found, state):
    """Whether an answer is right for this state."""
    return MATCHES[op["name"]](op, found, state)


def _search(op, found, state):
    places = allowed(state, op)
    ids, serials = state.ids[places], op["queries"]
    if op["rerank"] != "vectors" and has_tables(pool().models[state.model]):
        return same(found, _by_tables(state, serials, places, op["k"]))
    if op["rerank"] == "none":
        query_codes = pool().codes[state.model][0][serials]
        codes = state.codes[places] if len(places) else np.empty((0, 1), np.uint8)
        return same(found, nearest(ids, codes, query_codes, op["k"]))
    if not len(places):
        return bool((found.ids == -1).all())
    if op["rerank"] == "vectors" and state.keep in SMALL:
        kept = small.shrink(pool().vectors[state.serials], state.keep)[places]
        every = np.tile(np.arange(len(places)), (len(serials), 1))
        scores = small.small_distances(kept, every, pool().vectors[serials], state.metric)
        return _scored(found, ids, scores, op["k"])
    if op["rerank"] == "vectors":
        stood = state.vectors[places].astype(np.float64)
    else:
        stood = state.decoded[places].astype(np.float64)
    scores = scores_of(pool().vectors[serials].astype(np.float64), stood, state.metric, op)
    return _scored(found, ids, scores, op["k"])


def _by_tables(state, serials, places, k):
    codes = state.codes[places] if len(places) else np.empty((0, 1), np.uint8)
    model, queries = pool().models[state.model], pool().vectors[serials]
    return nearest_by_tables(model, state.metric, queries, state.ids[places], codes, k)


def scores_of(queries, stood, metric, op):
    """Scores (n_queries, n) of what rows stand for; smaller is nearer."""
    if metric == "l2":
        return np.square(queries[:, None] - stood[None]).sum(axis=2)
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        if op["rerank"] == "vectors":
            stood = stood / np.linalg.norm(stood, axis=1, keepdims=True)
        return 1 - queries @ stood.T
    return -queries @ stood.T


def _scored(found, ids, scores, k):
    """Whether the answer has the k smallest scores, each with an id that has this score."""
    n = min(k, len(ids))
    best = np.sort(scores, axis=1)[:, :n]
    near = 1e-3 * (1 + np.abs(scores).max())
    if (found.ids[:, n:] != -1).any() or (found.ids[:, :n] < 0).any():
        return False
    places = np.searchsorted(ids, found.ids[:, :n]).clip(0, len(ids) - 1)
    if (ids[places] != found.ids[:, :n]).any() or found.distances.dtype != np.float32:
        return False
    if any(len(set(row)) != n for row in places.tolist()):
        return False
    own = np.take_along_axis(scores, places, axis=1)
    given = found.distances[:, :n]
    return bool((np.abs(given - own) < near).all() and (np.abs(given - best) < near).all())


def _range(op, found, state):
    places = allowed(state, op)
    query_codes = pool().codes[state.model][0][op["queries"]]
    codes = state.codes[places] if len(places) else np.empty((0, 1), np.uint8)
    every, ids = distances_to(codes, query_codes), state.ids[places]
    limits, distances, chosen = [0], [], []
    for row in every:
        order = np.argsort(row, kind="stable")
        order = order[row[order] <= op["radius"]]
        distances.append(row[order])
        chosen.append(ids[order])
        limits.append(limits[-1] + len(order))
    expected = (np.asarray(limits, np.int64), np.concatenate(distances), np.concatenate(chosen))
    return same(found, expected)


def _join(op, found, state):
    if not state.rows:
        return len(found) == 0
    every = distances_to(state.codes, state.codes)
    first, second = np.nonzero(np.triu(every <= op["radius"], 1))
    expected = np.stack([state.ids[first], state.ids[second], every[first, second]], axis=1)
    return np.array_equal(found, expected)


def _get(op, found, state):
    if op["keys"] is not None:
        if any(key not in state.keys for key in op["keys"]):
            return False
        ids = [state.keys[key] for key in op["keys"]]
    else:
        ids = op["ids"]
    if found.ids.tolist() != ids or any(id_ not in state.rows for id_ in ids):
        return False
    expected = state.contents[1]
    for place, id_ in enumerate(ids):
        code, vector, key, meta = expected[id_]
        told = {n: v[place] for n, v in found.metadata.items() if v[place] is not None}
        if (found.codes[place].tobytes(), found.keys[place], told) != (code, key, dict(meta)):
            return False
        if vector is not None and found.vectors[place].tobytes() != vector:
            return False
    return True


def _of_bits(match):
    """What Hamming distance answers: nothing, where the codes of a state have none."""

    def only_of_bits(op, found, state):
        return not has_tables(pool().models[state.model]) and match(op, found, state)

    return only_of_bits


MATCHES = {
    "search": _search,
    "search_codes": _of_bits(_search),
    "range": _of_bits(_range),
    "join": _of_bits(_join),
    "get": _get,
    "len": lambda op, found, state: found == len(state.rows),
    "ids": lambda op, found, state: np.array_equal(found, state.ids),
    "stats": lambda op, found, state: (
        found["n_rows"] == len(state.rows)
        and found["n_bits"] == pool().models[state.model].code_bits
        and (found["kind"] == "tables") == has_tables(pool().models[state.model])
        and found["keep_vectors"] == state.keep
    ),
    "verify": lambda op, found, state: found.n_rows == len(state.rows),
    "contents": lambda op, found, state: found == state.contents,
}
