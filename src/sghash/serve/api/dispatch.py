"""From a request to a verb and back, without the framework, which takes longer than a search."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from sghash.serve.api import verbs
from sghash.serve.api.answering import json_bytes, negotiate
from sghash.serve.api.reading import JSON, Body, kind_of, read_request
from sghash.serve.api.routes import VERBS, Verb, find
from sghash.serve.hosting import Hosted
from sghash.serve.refusals import Refusal

# Bodies that are read in the event loop; larger ones are, in a thread.
_SMALL_BODY = 1 << 15
_NO_PARAMETERS = QueryParams()


class Dispatch:
    """An ASGI application: the verbs itself, everything else by another application."""

    def __init__(self, app: ASGIApp, hosted: Mapping[str, Hosted]) -> None:
        self._app, self._hosted = app, hosted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is wrong with it is raised."""
        parts: list[str] = scope["path"].split("/") if scope["type"] == "http" else []
        if len(parts) != 4 or parts[1] != "collections" or parts[3] not in VERBS:
            await self._app(scope, receive, send)
            return
        own, verb = find(self._hosted, parts[2]), VERBS[parts[3]]
        scope["sghash.verb"] = parts[3]
        if scope["method"] != "POST":
            raise Refusal(405, f"{parts[3]} takes a body: send it by POST", allow="POST")
        headers: dict[bytes, bytes] = scope["sghash.headers"]
        accept = headers.get(b"accept", b"").decode("latin-1")
        kind = negotiate(accept, numbers=verb.numbers, tables=verb.is_table)
        content = kind_of(headers.get(b"content-type", b"").decode("latin-1"))
        text = scope["query_string"]
        parameters = QueryParams(text) if text else _NO_PARAMETERS
        body = Body(await whole_body(receive), content, parameters)
        data = await _answer(own, parts[3], verb, body, kind)
        start = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": 200, "headers": start})
        await send({"type": "http.response.body", "body": data})


async def _answer(own: Hosted, name: str, verb: Verb, body: Body, kind: str) -> bytes:
    """The bytes of an answer; a single query goes together with others."""
    limits = own.settings.limits
    if name == "search" and body.kind == JSON and len(body.data) <= _SMALL_BODY:
        single = verbs.single_query(own, read_request(body, verb.shape, limits))
        if single is not None:
            found = await own.search(*single)
            return verbs.neighbors(own.collection.moment, found, False, limits).render(kind)

    def work() -> bytes:
        done = verb.work(own, read_request(body, verb.shape, limits))
        return json_bytes(done) if isinstance(done, dict) else done.render(kind)

    return await (own.write(work) if verb.writes else own.read(work))


async def whole_body(receive: Receive) -> bytes:
    """The body; the gate has limited its length and its time."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection ended before the body did: send all of it")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
