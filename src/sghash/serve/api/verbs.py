"""The verbs: what is asked of a collection, and what comes back. All of it runs in threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sghash.collection import answers
from sghash.collection.moment import Moment
from sghash.collection.records import PARTS, metadata_of, read_records, text_bytes
from sghash.collection.where.choice import ids_of
from sghash.errors import InvalidDtype, InvalidInput
from sghash.index import HammingIndex
from sghash.serve.api.answering import Answer
from sghash.serve.gathering import Found, Options
from sghash.serve.hosting import Hosted
from sghash.serve.refusals import Refusal
from sghash.serve.settings import Limits
from sghash.validation import MAX_ID, check_codes, check_vectors

_QUERIES = ("queries", "codes", "ids", "keys")


def search(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """The nearest rows of vectors, of codes, or of rows that are there."""
    given = [name for name in _QUERIES if asked.get(name) is not None]
    if len(given) != 1:
        raise InvalidInput(f"give one of {', '.join(_QUERIES)}, got {len(given)} of them")
    moment, kind, limits = hosted.collection.moment, given[0], hosted.settings.limits
    queries = asked[kind]
    if isinstance(queries, np.ndarray) and queries.ndim == 1:
        queries = queries[None]
    _check_rows(len(queries), limits)
    options = options_of(asked, limits)
    if kind in ("ids", "keys"):
        kind, queries = _queries_of_rows(moment, _row_ids(moment, asked), options)
    where = where_of(asked["where"])
    _check_numbers(len(queries), min(options.k, limits.k), limits)
    threads = hosted.settings.threads
    if kind == "codes":
        _check_comparing(options)
        made_by = asked.get("fingerprint") or moment.state.manifest.fingerprint
        found = answers.neighbors_of_codes(
            moment, queries, options.k, fingerprint=made_by, where=where, threads=threads
        )
    else:
        how = options._asdict() | {"where": where}
        how.pop("by_codes")
        found = answers.neighbors_of(moment, queries, threads=threads, **how)
    rows = Found(found.distances, found.ids, found.keys)
    return neighbors(moment, rows, asked["metadata"], limits)


def single_query(hosted: Hosted, asked: dict[str, Any]) -> tuple[NDArray[Any], Options] | None:
    """The query of a request that can be answered together with others; None for any other."""
    where = asked["where"]
    if asked["metadata"] or not (where is None or isinstance(where, str)):
        return None
    given = [name for name in _QUERIES if asked[name] is not None]
    if len(given) != 1 or given[0] not in ("queries", "codes"):
        return None
    if asked["fingerprint"] is not None:
        return None  # to be compared with the model of the very moment that answers
    queries = asked[given[0]]
    if queries.ndim == 2 and len(queries) != 1:
        return None
    options = options_of(asked, hosted.settings.limits)
    if given[0] == "queries":
        return check_vectors(queries, width=hosted.width, name="queries"), options
    _check_comparing(options)
    codes = check_codes(queries, hosted.collection.n_bits, name="codes")
    return codes, options._replace(rerank=None, by_codes=True)


def _compares_codes(options: Options) -> bool:
    """Whether nothing but Hamming distances is asked for."""
    return options.rerank in (None, "none") and options[2:4] == (None, None)


def _check_comparing(options: Options) -> None:
    if not _compares_codes(options):
        raise InvalidInput(
            "codes are compared by Hamming distance: leave rerank, shortlist and "
            "target_recall out, or send vectors"
        )


def options_of(asked: dict[str, Any], limits: Limits) -> Options:
    """How to search; more neighbours than there may be are refused."""
    if asked["k"] > limits.k:
        raise Refusal(413, f"k may be at most {limits.k} here, got {asked['k']}: ask for fewer")
    where = asked["where"]
    return Options(
        asked["k"], asked["rerank"], asked["shortlist"], asked["target_recall"],
        where if isinstance(where, str) else None,
    )  # fmt: skip


def neighbors(moment: Moment, found: Found, with_metadata: bool, limits: Limits) -> Answer:
    """Neighbours as they are answered."""
    if found.keys is not None:
        keys: list[str | None] = found.keys.ravel().tolist()
        _check_texts(sum(len(key) for key in keys if key is not None), limits)
    columns: dict[str, Any] = {"distances": found.distances, "ids": found.ids, "keys": found.keys}
    if with_metadata:
        # The rows of the answer, of the moment that it was made in.
        known, places, times = np.unique(found.ids, return_inverse=True, return_counts=True)
        _check_texts(int(times @ text_bytes(moment.state, known, with_metadata=True)), limits)
        values = metadata_of(moment.state, known)
        grid: Any = places.reshape(found.ids.shape).tolist()
        columns["metadata"] = {
            name: [[column[place] for place in row] for row in grid]
            for name, column in values.items()
        }
    return Answer(columns, {"dtype": str(found.distances.dtype)}, ("distances", "ids"))


def within(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """All rows within a radius, few queries at a time: the answer may become too large."""
    moment, limits = hosted.collection.moment, hosted.settings.limits
    queries = check_vectors(asked["queries"], width=hosted.width, name="queries")
    _check_rows(len(queries), limits)
    where, threads = where_of(asked["where"]), hosted.settings.threads
    numbers, distances, ids = [], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    first, step, total = 0, 1, 0
    while first < len(queries):
        some = queries[first : first + step]
        found = answers.rows_within(
            moment, some, asked["radius"], where=where, threads=threads
        ).neighbors
        numbers.append(np.repeat(np.arange(first, first + len(some)), np.diff(found.limits)))
        distances.append(found.distances)
        ids.append(found.ids)
        total += len(found.ids)
        if 2 * total > limits.numbers:
            raise Refusal(
                413,
                f"more than {limits.numbers // 2} rows are within {asked['radius']} bits: "
                "ask for a smaller radius, or send fewer queries",
            )
        first += len(some)
        # As many more as should fit into half of what is left, going by those so far.
        step = min(2 * step, max(1, (limits.numbers - 2 * total) * first // max(1, 4 * total)))
    query = np.concatenate([np.empty(0, np.int64), *numbers])
    columns = {
        "query": query,
        "distances": np.concatenate(distances),
        "ids": np.concatenate(ids),
    }
    ends = np.searchsorted(query, np.arange(len(queries) + 1)).tolist()
    return Answer(columns, {"limits": ends}, ("query", "distances", "ids"))


def explain(hosted: Hosted, asked: dict[str, Any]) -> dict[str, Any]:
    """What one search did in each segment."""
    options = options_of(asked, hosted.settings.limits)
    where, radius = where_of(asked["where"]), asked["radius"]
    if radius is not None:
        told = hosted.collection.explain(asked["queries"], radius=radius, where=where)
        if len(told.neighbors.ids) > hosted.settings.limits.numbers // 2:
            raise Refusal(413, "too many rows are within this radius: ask for a smaller one")
    else:
        how = {name: value for name, value in options._asdict().items() if value is not None}
        for name in ("where", "by_codes"):
            how.pop(name, None)
        told = hosted.collection.explain(asked["queries"], how.pop("k"), where=where, **how)
    columns = {"distances": told.neighbors.distances, "ids": told.neighbors.ids}
    found = Answer(columns, {"dtype": str(told.neighbors.distances.dtype)})
    visits = [dict(visit._asdict()) for visit in told.visits]
    return {
        "neighbors": found.plain(),
        "visits": plain_facts(visits),
        "microseconds": told.microseconds,
        "text": str(told),
    }


def contains(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """Which of some ids or keys are there."""
    given = _ids_or_keys(asked.get("ids"), asked.get("keys"))
    _check_rows(len(given), hosted.settings.limits)
    state = hosted.collection.moment.state
    found = np.array([answers.contains(state, id_) for id_ in given], dtype=np.bool_)
    return Answer({"contains": found}, {}, ("contains",))


def get(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """What is stored under ids or keys."""
    moment, limits = hosted.collection.moment, hosted.settings.limits
    ids = _row_ids(moment, asked)
    _check_rows(len(ids), limits)
    wanted = set(PARTS if asked["include"] is None else asked["include"])
    width = hosted.width * len(wanted & {"reconstructions", "vectors"})
    _check_numbers(len(ids), width + 1, limits)
    texts = text_bytes(moment.state, ids, with_metadata="metadata" in wanted)
    _check_texts(int(texts.sum()), limits)
    records = read_records(moment.state, ids, moment.holder.model, wanted)
    columns: dict[str, Any] = {"ids": records.ids, "keys": records.keys}
    columns |= {name: getattr(records, name) for name in PARTS if name in wanted}
    kept = moment.state.manifest.keep_vectors
    return Answer(columns, {"kinds": dict(moment.state.kinds), "keep_vectors": kept})


def encode(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """Codes of vectors."""
    moment = hosted.collection.moment  # once: another process may change the model meanwhile
    vectors = check_vectors(asked["vectors"], width=hosted.width)
    _check_rows(len(vectors), hosted.settings.limits)
    codes = moment.holder.model.encode(vectors)
    fingerprint = moment.state.manifest.fingerprint
    return Answer({"codes": codes}, {"fingerprint": fingerprint}, ("codes",))


def decode(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """Vectors that codes stand for."""
    moment, limits = hosted.collection.moment, hosted.settings.limits
    codes = check_codes(asked["codes"], moment.state.manifest.n_bits)
    _check_rows(len(codes), limits)
    _check_numbers(len(codes), hosted.width, limits)
    answers.check_values_of(moment, codes)
    return Answer({"vectors": moment.holder.model.decode(codes)}, {}, ("vectors",))


def ids_after(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """The next ids, rising; there are no more where fewer come than were asked for."""
    limits = hosted.settings.limits
    most = limits.numbers if asked["limit"] is None else asked["limit"]
    if most > limits.numbers:
        raise Refusal(413, f"an answer may hold {limits.numbers} ids: ask for fewer at a time")
    ids = hosted.collection.ids
    first = int(np.searchsorted(ids, asked["after"], side="right"))
    return Answer({"ids": ids[first : first + most]}, {"limit": most}, ("ids",))


def stats(hosted: Hosted) -> dict[str, Any]:
    """Counts and sizes."""
    return plain_facts(hosted.collection.stats())  # type: ignore[no-any-return]


def add(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """New rows; they are on the disk when this returns."""
    if (asked.get("vectors") is None) == (asked.get("codes") is None):
        raise InvalidInput("give either vectors or codes")
    rows = asked["codes"] if asked.get("vectors") is None else asked["vectors"]
    ids, columns = _incoming(hosted, asked, rows)
    collection = hosted.collection
    if asked.get("codes") is not None:
        made_by = asked.get("fingerprint") or collection.fingerprint
        return _written(hosted, collection.add_codes(rows, ids, columns, fingerprint=made_by))
    return _written(hosted, collection.add(rows, ids, columns))


def upsert(hosted: Hosted, asked: dict[str, Any]) -> Answer:
    """Rows that are new, or replace those that are there."""
    ids, columns = _incoming(hosted, asked, asked["vectors"])
    if ids is None:
        raise InvalidInput("upsert replaces rows by their id: give ids or keys")
    return _written(hosted, hosted.collection.upsert(asked["vectors"], ids, columns))


def delete(hosted: Hosted, asked: dict[str, Any]) -> dict[str, Any]:
    """Delete rows: all of them, or none."""
    ids = _row_ids(hosted.collection.moment, asked)
    _check_rows(len(ids), hosted.settings.limits)
    hosted.collection.delete(ids)
    return {"deleted": len(np.unique(ids)), "n_rows": len(hosted.collection)}


def where_of(where: Any) -> Any:
    """A condition as it is; ids or keys as a list."""
    if where is None or isinstance(where, str):
        return where
    return _ids_or_keys(where.ids, where.keys)


def plain_facts(value: Any) -> Any:
    """Facts as JSON can hold them."""
    if isinstance(value, dict):
        return {str(name): plain_facts(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_facts(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain_facts(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _incoming(hosted: Hosted, asked: dict[str, Any], rows: Any) -> tuple[Any, Any]:
    _check_rows(1 if np.ndim(rows) == 1 else len(rows), hosted.settings.limits)
    given = asked.get("ids") is not None or asked.get("keys") is not None
    ids = _ids_or_keys(asked.get("ids"), asked.get("keys")) if given else None
    return ids, asked.get("metadata")


def _written(hosted: Hosted, ids: NDArray[np.int64]) -> Answer:
    return Answer({"ids": ids}, {"n_rows": len(hosted.collection)}, ("ids",))


def _ids_or_keys(ids: Any, keys: Any) -> Any:
    if (ids is None) == (keys is None):
        raise InvalidInput("give either ids or keys")
    if keys is not None:
        if not all(isinstance(key, str) for key in keys):
            raise InvalidDtype("keys must be texts: give whole numbers as ids")
        return list(keys)
    if not all(type(id_) in (int, str) for id_ in ids):
        raise InvalidDtype("ids must be whole numbers, or texts of digits")
    numbers = [int(id_) for id_ in ids]
    if any(not 0 <= number <= MAX_ID for number in numbers):
        raise InvalidInput(f"ids must lie between 0 and {MAX_ID}")
    return numbers


def _row_ids(moment: Moment, asked: dict[str, Any]) -> NDArray[np.int64]:
    """Ids of rows that are there."""
    given = _ids_or_keys(asked.get("ids"), asked.get("keys"))
    return ids_of(given, moment.state) if given else np.empty(0, np.int64)


def _queries_of_rows(
    moment: Moment, ids: NDArray[np.int64], options: Options
) -> tuple[str, NDArray[Any]]:
    """Rows as queries: their kept vectors, else their codes or what these stand for."""
    wanted = ("vectors",) if moment.state.manifest.keep_vectors else ("codes", "reconstructions")
    records = read_records(moment.state, ids, moment.holder.model, wanted)
    if records.vectors is not None:
        return "queries", np.asarray(records.vectors, dtype=np.float32)
    if _compares_codes(options) and moment.state.manifest.kind == HammingIndex.kind:
        return "codes", records.codes
    if records.reconstructions is None:
        raise InvalidInput("the model has no decoder, and no vectors are kept: search by vectors")
    return "queries", records.reconstructions


def _check_rows(n: int, limits: Limits) -> None:
    if n > limits.rows:
        raise Refusal(413, f"a request may hold {limits.rows} rows, got {n}: send fewer at a time")


def _check_numbers(n: int, width: int, limits: Limits) -> None:
    if n * width > limits.numbers:
        raise Refusal(
            413,
            f"an answer may hold {limits.numbers} numbers, this would have {n * width}: "
            "ask for fewer rows at a time",
        )


def _check_texts(n_bytes: int, limits: Limits) -> None:
    if n_bytes > limits.text_bytes:
        raise Refusal(
            413,
            f"an answer may hold {limits.text_bytes} bytes of keys and metadata, this would have "
            f"{n_bytes}: ask for fewer rows at a time",
        )
