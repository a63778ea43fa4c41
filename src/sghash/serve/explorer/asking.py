"""One question of the page: neighbours by every measure, the code decoded, and its shells.

All of an answer is of one moment of the collection, whatever is written meanwhile.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection import answers
from sghash.collection.moment import Moment
from sghash.collection.records import read_records
from sghash.collection.storage.state import State
from sghash.collection.where.choice import ids_of
from sghash.errors import InvalidInput
from sghash.neighbors import PADDING_ID, Neighbors
from sghash.serve.explorer.looks import Looks
from sghash.serve.explorer.packing import packed
from sghash.serve.explorer.rows import as_bytes, as_texts, shown_rows
from sghash.validation import (
    Codes,
    Ids,
    Vectors,
    check_codes,
    check_count,
    check_vectors,
    n_bytes_of,
)

MOST_NEIGHBOURS = 100
# Rows that kept vectors decide between.
SHORTLIST = 1000


class Question(NamedTuple):
    """A code (1, n_bytes), the vector (1, d) it comes from where one is known, and its row."""

    code: Codes
    vector: Vectors | None
    id: int | None


def question_of(moment: Moment, asked: Any) -> Question:
    """What a page asks about: {"id": ...}, {"key": ...}, {"vector": [...]} or {"code": hex}."""
    kinds = ("id", "key", "vector", "code")
    given = [kind for kind in kinds if isinstance(asked, dict) and asked.get(kind) is not None]
    if len(given) != 1:
        raise InvalidInput('ask with one of "id", "key", "vector" and "code"')
    kind, value = given[0], asked[given[0]]
    state, model = moment.state, moment.holder.model
    if kind == "vector":
        vector = check_vectors(_numbers(value), width=model.n_features_in_, name="vector")
        return Question(model.encode(vector), vector, None)
    if kind == "code":
        return Question(_code(value, state.manifest.n_bits), None, None)
    ids = ids_of([_id(value)] if kind == "id" else [_text(value)], state)
    record = read_records(state, ids, model)
    kept = None if record.vectors is None else record.vectors.astype(np.float32)
    return Question(record.codes, kept, int(record.ids[0]))


def answer(
    moment: Moment, asked: Any, k: int, looks: Looks, brightness: tuple[float, float]
) -> dict[str, Any]:
    """Everything that changes with the query, in one object."""
    clock = time.perf_counter()
    check_count(k, name="k")
    if k > MOST_NEIGHBOURS:
        raise InvalidInput(f"the page shows at most {MOST_NEIGHBOURS} neighbours, {k} were asked")
    question = question_of(moment, asked)
    model = moment.holder.model
    decoded = None
    if model.capabilities.decodes:
        decoded = np.asarray(model.decode(question.code), dtype=np.float32)
    # A code that was typed or changed stands for what it decodes to.
    vector = question.vector if question.vector is not None else decoded
    columns = neighbours_of(moment, question, vector, k)
    shown = np.unique(np.concatenate([found.ids[0] for found in columns.values()]))
    shown = shown[shown != PADDING_ID]
    if question.id is not None:
        shown = np.union1d(shown, [question.id])
    said: dict[str, Any] = {
        "id": None if question.id is None else str(question.id),
        "code": question.code[0].tobytes().hex(),
        "columns": {name: _listed(found) for name, found in columns.items()},
        **rows_of(moment, shown, looks, brightness),
        "vector": None if question.vector is None else packed(question.vector[0]),
        "decoded": None if decoded is None else packed(decoded[0]),
    }
    if "hamming" in columns:
        said["shells"] = packed(shells(moment.state, question.code[0]))
    said["milliseconds"] = round(1000 * (time.perf_counter() - clock), 2)
    return said


def rows_of(
    moment: Moment, ids: Ids, looks: Looks, brightness: tuple[float, float]
) -> dict[str, Any]:
    """Rows, their codes, and where vectors are pictures these too: the kept ones, or decoded.

    Rows that are gone by now are left out.
    """
    there = ids[moment.state.find(ids).segments >= 0]
    records = read_records(moment.state, there, moment.holder.model)
    pictures = records.vectors if records.vectors is not None else records.reconstructions
    said = {"rows": shown_rows(records, looks), "codes": packed(records.codes)}
    if looks.picture is not None and pictures is not None:
        said["pictures"] = packed(as_bytes(pictures, brightness))
    return said


def neighbours_of(
    moment: Moment, question: Question, vector: Vectors | None, k: int
) -> dict[str, Neighbors]:
    """The k nearest by each measure that the collection has; a row is not its own neighbour."""
    capabilities, manifest = moment.holder.model.capabilities, moment.state.manifest
    more = k + (question.id is not None)
    found: dict[str, Neighbors] = {}
    if capabilities.codes == "bits":
        found["hamming"] = answers.neighbors_of_codes(
            moment, question.code, more, fingerprint=manifest.fingerprint, where=None, threads=None
        )
    has = {"decoder": capabilities.tables, "vectors": manifest.keep_vectors is not None}
    depths: dict[str, Any] = {"decoder": "all", "vectors": max(SHORTLIST, more)}
    for rerank, shortlist in depths.items():
        if vector is None or not has[rerank]:
            continue
        found[rerank] = answers.neighbors_of(
            moment, vector, more, rerank=rerank, shortlist=shortlist, where=None, threads=None
        )
    return {name: _without(each, question.id, k) for name, each in found.items()}


def shells(state: State, code: Codes) -> NDArray[np.int32]:
    """How many rows differ from a code (n_bytes,) in 0, 1, ... n_bits bits."""
    counts = np.zeros(state.manifest.n_bits + 1, np.int64)
    for rows, alive in state.views:
        distances = _distances(np.asarray(rows.codes), code)
        chosen = distances if alive is None else distances[alive]
        counts += np.bincount(chosen, minlength=len(counts))[: len(counts)]
    return counts.astype(np.int32)


def _distances(codes: Codes, code: Codes) -> NDArray[np.uint16]:
    """Hamming distance of every code; eight bytes at a time where they allow it."""
    words = np.uint64 if codes.shape[1] % 8 == 0 and codes.flags.c_contiguous else np.uint8
    theirs = codes.view(words)
    own = np.ascontiguousarray(code).view(words)
    total = np.zeros(len(codes), np.uint16)
    for place in range(theirs.shape[1]):
        total += np.bitwise_count(theirs[:, place] ^ own[place])
    return total


def _without(found: Neighbors, own: int | None, k: int) -> Neighbors:
    ids, distances = found.ids[0], found.distances[0]
    keep = ids != (PADDING_ID if own is None else own)
    return Neighbors(distances[keep][:k][None], ids[keep][:k][None])


def _listed(found: Neighbors) -> dict[str, Any]:
    there = found.ids[0] != PADDING_ID
    return {
        "ids": as_texts(found.ids[0][there]),
        "distances": [round(float(d), 6) for d in found.distances[0][there]],
    }


def _numbers(value: Any) -> NDArray[np.float32]:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("a vector is a list of numbers: check what was typed") from error
    if array.ndim != 1:
        raise InvalidInput("a vector is one list of numbers: check what was typed")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as not finite
        return array.astype(np.float32)[None]


def _code(value: Any, n_bits: int) -> Codes:
    """A code from hexadecimal digits, or from as many 0 and 1 as it has bits."""
    text = _text(value)
    if len(text) == n_bits and set(text) <= {"0", "1"} and n_bits > 2 * n_bytes_of(n_bits):
        bits = np.frombuffer(text.encode(), np.uint8) - ord("0")
        return np.packbits(bits)[None]
    try:
        array = np.frombuffer(bytes.fromhex(text), np.uint8)
    except ValueError as error:
        raise InvalidInput(
            f"a code here is {n_bits} bits 0 and 1, or {2 * n_bytes_of(n_bits)} hexadecimal digits"
        ) from error
    if len(array) != n_bytes_of(n_bits):
        raise InvalidInput(
            f"a code here has {n_bytes_of(n_bits)} bytes, {len(array)} came: give "
            f"{2 * n_bytes_of(n_bits)} hexadecimal digits"
        )
    return check_codes(array[None], n_bits, name="code")


def _id(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise InvalidInput('an id is a whole number: use "key" for a row\'s key')
    return int(text)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput("keys and codes are texts: put them in quotes")
    return value.strip()


def ids_found(texts: list[str], ids: Ids, words: str, most: int) -> Ids:
    """Ids of rows whose text holds every word, those with the whole phrase first."""
    phrase = words.lower().strip()
    parts = phrase.split()
    if not parts:
        return ids[:0]
    whole = [at for at, text in enumerate(texts) if phrase in text][:most]
    if len(whole) < most and len(parts) > 1:
        seen = set(whole)
        whole += [
            at
            for at, text in enumerate(texts)
            if at not in seen and all(part in text for part in parts)
        ][: most - len(whole)]
    return ids[np.asarray(whole, dtype=np.int64)]
