"""The verbs that take a body, and the addresses that take none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response

from sghash.serve.api import requests, verbs
from sghash.serve.api.answering import Answer, json_bytes, negotiate
from sghash.serve.api.reading import JSON, Shape, read_parameters
from sghash.serve.hosting import Hosted
from sghash.serve.refusals import Refusal

_Work = Callable[[Hosted, dict[str, Any]], Answer | dict[str, Any]]


class Verb(NamedTuple):
    """What is done at `/collections/{name}/<verb>`."""

    work: _Work
    shape: Shape
    about: str
    #: Whether there is an answer as `.npy`, and whether there is one but JSON.
    numbers: bool = True
    is_table: bool = True
    writes: bool = False


#: All verbs that take a body.
VERBS: dict[str, Verb] = {
    "search": Verb(
        verbs.search, Shape(requests.Search, requests.SearchOptions, "queries"),
        "The nearest rows of vectors, codes, or rows of the collection.",
    ),
    "range": Verb(
        verbs.within, Shape(requests.Range, requests.RangeOptions, "queries"),
        "All rows whose codes differ in at most `radius` bits.",
    ),
    "explain": Verb(
        verbs.explain, Shape(requests.Explain, requests.ExplainOptions, "queries"),
        "Answer one query, and say what that took.", numbers=False, is_table=False,
    ),
    "get": Verb(
        verbs.get, Shape(requests.Get, requests.NoOptions, "ids"),
        "What is stored under ids or keys.", numbers=False,
    ),
    "contains": Verb(
        verbs.contains, Shape(requests.Contains, requests.NoOptions, "ids"),
        "Which of some ids or keys are there.",
    ),
    "encode": Verb(
        verbs.encode, Shape(requests.Encode, requests.NoOptions, "vectors"), "Codes of vectors.",
    ),
    "decode": Verb(
        verbs.decode, Shape(requests.Decode, requests.NoOptions, "codes"),
        "Vectors that codes stand for.",
    ),
    "add": Verb(
        verbs.add, Shape(requests.Add, requests.CodeOptions, "vectors"),
        "Add rows; they are on the disk when the answer comes.", writes=True,
    ),
    "upsert": Verb(
        verbs.upsert, Shape(requests.Upsert, requests.NoOptions, "vectors"),
        "Add rows, or replace those that are there.", writes=True,
    ),
    "delete": Verb(
        verbs.delete, Shape(requests.Delete, requests.NoOptions, "ids"),
        "Delete rows: all of them, or none.", numbers=False, is_table=False, writes=True,
    ),
}  # fmt: skip


def add_routes(app: FastAPI, hosted: Mapping[str, Hosted]) -> None:
    """Let the application say which collections there are, and what is in them."""

    async def ids(request: Request) -> Response:
        own = find(hosted, request.path_params["name"])
        kind = negotiate(request.headers.get("accept", ""))
        asked = read_parameters(request.query_params, requests.IdsAfter)
        answer = await own.read(verbs.ids_after, own, asked)
        return Response(await own.read(answer.render, kind), media_type=kind)

    async def stats(request: Request) -> Response:
        own = find(hosted, request.path_params["name"])
        read_parameters(request.query_params, requests.NoOptions)
        return Response(json_bytes(await own.read(verbs.stats, own)), media_type=JSON)

    async def listed(request: Request) -> Response:
        read_parameters(request.query_params, requests.NoOptions)
        found = {name: {"n_rows": len(own.collection)} for name, own in hosted.items()}
        return Response(json_bytes({"collections": found}), media_type=JSON)

    for path, answer in (
        ("/collections", listed),
        ("/collections/{name}", stats),
        ("/collections/{name}/ids", ids),
    ):
        app.add_api_route(path, answer, methods=["GET"], include_in_schema=False)


def find(hosted: Mapping[str, Hosted], name: str) -> Hosted:
    """The collection that an address names."""
    own = hosted.get(name)
    if own is None:
        known = ", ".join(hosted)
        raise Refusal(404, f"there is no such collection here: there are {known}"[:600])
    return own
