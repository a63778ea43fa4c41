"""Doing for real what an operation says."""

from __future__ import annotations

import io
import secrets
import tempfile
from pathlib import Path

import numpy as np
from checking import contents
from pool import Source, pool

from sghash import Collection
from sghash.collection import encode_part


class Skipped(Exception):
    """This version of the collection has no such function."""


class Balk(Exception):
    """Raised by a function of the caller, who must get it back as it is."""


def _progress(op):
    if op.get("balk") is None:
        return {}
    calls = []

    def progress(done, total):
        calls.append(done)
        if len(calls) >= op["balk"]:
            raise Balk

    return {"callback": progress}


def change(collection, op):
    """Add, upsert, delete, compact or reencode; return the ids of new rows as a list."""
    name, watched = op["name"], _progress(op)
    if op.get("job"):
        return _job(collection, op)
    if name in ("add", "upsert"):
        vectors = Source(op["serials"]) if op.get("block") else pool().vectors[op["serials"]]
        ids = op["ids"] if op["keys"] is None else op["keys"]
        return getattr(collection, name)(vectors, ids, op["meta"], **watched).tolist()
    if name == "add_codes":
        codes = pool().codes[op["model"]][0][op["serials"]]
        ids = op["ids"] if op["keys"] is None else op["keys"]
        fingerprint = pool().models[op["model"]].fingerprint_
        return collection.add_codes(codes, ids, op["meta"], fingerprint=fingerprint).tolist()
    if name == "delete":
        collection.delete(op["ids"] if op["keys"] is None else op["keys"])
    elif name == "compact":
        collection.compact(**watched)
    elif name == "reencode":
        collection.reencode(pool().models[op["model"]], **watched)
    else:
        raise KeyError(name)
    return None


def _job(collection, op):
    """The same rows, encoded as the parts of a job and committed; nothing is left of its file."""
    with tempfile.TemporaryDirectory() as place:
        # Not straight to the file: NumPy tells of an interrupt there as of a wrong type.
        content = io.BytesIO()
        np.save(content, pool().vectors[op["serials"]])
        Path(place, "rows.npy").write_bytes(content.getvalue())
        job = f"job {secrets.token_hex(8)}"
        tasks = collection.prepare(f"{place}/rows.npy", job=job, rows_per_part=op["job"])
        collection.commit([encode_part(task) for task in tasks], job=job)
    return [id_ for task in tasks for id_ in range(task.first, task.first + task.stop - task.start)]


def read(collection, op):
    """Any question that changes nothing."""
    name = op["name"]
    if name == "search":
        where = op.get("where") if op.get("only") is None else op["only"]
        if op.get("mask"):
            where = np.isin(collection.ids, where)
        return collection.search(
            pool().vectors[op["queries"]], op["k"], rerank=op["rerank"],
            shortlist=op["shortlist"], where=where, threads=op["threads"],
        )  # fmt: skip
    if name == "search_codes":
        codes = pool().codes[op["model"]][0][op["queries"]]
        fingerprint = pool().models[op["model"]].fingerprint_
        return collection.search_codes(codes, op["k"], fingerprint=fingerprint, threads=1)
    if name == "range":
        return collection.range_search(pool().vectors[op["queries"]], op["radius"], threads=1)
    if name == "join":
        return collection.similarity_join(op["radius"], threads=1)
    if name == "get":
        return collection.get(op["ids"] if op["keys"] is None else op["keys"])
    if name == "ids":
        return collection.ids
    if name == "len":
        return len(collection)
    if name == "contents":
        return contents(collection)
    return getattr(collection, name)()


def bad(collection, op):
    """Things that must be refused."""
    vectors = pool().vectors[op["serials"]]
    calls = {
        "twice": lambda: collection.upsert(vectors, [op["id"], op["id"]]),
        "nan": lambda: collection.add(vectors * np.nan),
        "width": lambda: collection.add(vectors[:, 1:]),
        "column": lambda: collection.add(vectors, metadata={"n": ["a", "b"]}),
        "unknown": lambda: collection.delete([10**9]),
        "used": lambda: collection.add(vectors, [op["id"], 10**9]),
        "used key": lambda: collection.add(vectors, [op["key"], "never used"]),
        "range": lambda: collection.range_search(vectors, 3),
        "join": lambda: collection.similarity_join(1),
        "search codes": lambda: _search_codes(collection, op),
        "shortlist": lambda: collection.search(vectors, 3, rerank="decoder", shortlist=50),
        "no centroid": lambda: _add_codes(collection, op),
    }
    calls[op["kind"]]()


def _search_codes(collection, op):
    codes = pool().codes[op["model"]][0][op["serials"]]
    return collection.search_codes(codes, 3, fingerprint=collection.fingerprint)


def _add_codes(collection, op):
    """A byte that no centroid has."""
    codes = pool().codes[op["model"]][0][op["serials"]].copy()
    codes[-1, -1] = 4
    return collection.add_codes(codes, fingerprint=pool().models[op["model"]].fingerprint_)


def backup(collection, target):
    """Copy the collection."""
    if not hasattr(Collection, "backup"):
        raise Skipped
    collection.backup(target)


def in_memory(folder):
    """The contents of the collection as a copy in memory has them."""
    try:
        collection = Collection.open(folder, in_memory=True)
    except TypeError as error:
        if "in_memory" not in str(error):
            raise
        raise Skipped from error
    return contents(collection)
