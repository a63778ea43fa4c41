"""What is really in a collection, and whether it is what it must be."""

from __future__ import annotations

import answers
import numpy as np
from pool import pool
from reference import Fault, text_of
from twins import has_tables, nearest_by_tables

from sghash import Collection, SghashError


def contents(collection):
    """Fingerprint of the model and {id: (code, vector, key, metadata)}; gaps are left out."""
    ids = collection.ids
    records = collection.get(ids)
    numbers = ids.tolist()
    if len(set(numbers)) != len(numbers):
        raise Fault("wrong contents", f"an id is there twice: {numbers}")
    if len(collection) != len(numbers):
        raise Fault("wrong contents", f"{len(collection)} rows, but {len(numbers)} ids")
    names = sorted(records.metadata)
    columns = [records.metadata[name] for name in names]
    rows = {}
    for place, id_ in enumerate(numbers):
        meta = ((name, column[place]) for name, column in zip(names, columns, strict=True))
        rows[id_] = (
            records.codes[place].tobytes(),
            None if records.vectors is None else records.vectors[place].tobytes(),
            records.keys[place],
            tuple((name, value) for name, value in meta if value is not None),
        )
    return collection.fingerprint, rows


def look(folder, **options):
    """Open a collection afresh, read every byte of it and return its contents.

    Must succeed: no fault is injected, and no other process replaces the model.
    """
    try:
        collection = Collection.open(folder, **options)
        summary = collection.verify()
        found = contents(collection)
        check_consistent(collection, found)
    except Fault:
        raise
    except SghashError as error:
        raise Fault("cannot be read", text_of(error)) from error
    except Exception as error:
        raise Fault("raw error", text_of(error)) from error
    if summary.n_rows != len(found[1]):
        raise Fault("wrong contents", f"verify counts {summary.n_rows}, get {len(found[1])}")
    return found


def check_consistent(collection, found):
    """A search must give what the rows themselves give, and every key must lead to its row."""
    fingerprint, rows = found
    ids = np.asarray(sorted(rows), dtype=np.int64)
    keys = {row[2]: id_ for id_, row in rows.items() if row[2] is not None}
    for key in list(keys)[:3]:
        if collection.get([key]).ids.tolist() != [keys[key]]:
            raise Fault("wrong answer", f"key {key} does not lead to id {keys[key]}")
    if fingerprint not in pool().numbers:
        raise Fault("wrong contents", f"unknown model {fingerprint}")
    codes = np.frombuffer(b"".join(rows[id_][0] for id_ in ids.tolist()), dtype=np.uint8)
    codes = codes.reshape(len(ids), -1) if len(ids) else codes.reshape(0, 1)
    serials = [len(rows) % 50, 7]
    model, queries = pool().models[pool().numbers[fingerprint]], pool().vectors[serials]
    found = collection.search(queries, 5, rerank="none", threads=1)
    if has_tables(model):
        expected = nearest_by_tables(model, collection.metric, queries, ids, codes, 5)
    else:
        query_codes = pool().codes[pool().numbers[fingerprint]][0][serials]
        expected = answers.nearest(ids, codes, query_codes, 5)
    if not answers.same(found, expected):
        raise Fault("wrong answer", f"search gives {found}, the rows give {expected}")


def check_folder(folder, worlds, **options):
    """Open afresh and compare in full; afterwards one world is left: the one that was found."""
    found = look(folder, **options)
    before = worlds.possible()
    worlds.settle(found)
    if not worlds.states:
        raise Fault("wrong contents", explain(found, before))


def check_among(found, worlds, where):
    """The contents found must be those of one world; which one may still change."""
    if all(found != state.contents for state in worlds.possible()):
        raise Fault("wrong contents", f"{where}: {explain(found, worlds.possible())}")


def explain(found, states):
    """How the contents differ from each state that was expected."""
    return " | ".join(difference(found, state.contents) for state in states[:4])


def difference(found, expected):
    """The difference of two contents in a few words."""
    numbers = pool().numbers
    if found[0] != expected[0]:
        return f"model {numbers.get(found[0])} instead of {numbers.get(expected[0])}"
    lost, extra = expected[1].keys() - found[1].keys(), found[1].keys() - expected[1].keys()
    other = {i for i in found[1].keys() & expected[1].keys() if found[1][i] != expected[1][i]}
    words = [f"{len(found[1])} rows instead of {len(expected[1])}"]
    for name, ids in (("lost", lost), ("extra", extra), ("changed", other)):
        if ids:
            words.append(f"{name} {sorted(ids)[:8]}")
    if other:
        id_ = min(other)
        words.append(f"id {id_}: {found[1][id_]} instead of {expected[1][id_]}")
    return ", ".join(words)
