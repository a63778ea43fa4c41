"""What the page asks a server for: thin addresses over the functions beside this file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from sghash.collection.records import metadata_of
from sghash.collection.storage.state import State
from sghash.collection.where.choice import ids_of
from sghash.errors import InvalidInput, MissingData, SghashError
from sghash.serve.api.dispatch import whole_body
from sghash.serve.api.routes import find
from sghash.serve.explorer.about import about
from sghash.serve.explorer.asking import answer, ids_found, rows_of
from sghash.serve.explorer.atlas import atlas_bytes
from sghash.serve.explorer.drawing import drawn_bits, drawn_map
from sghash.serve.explorer.looks import Looks
from sghash.serve.explorer.packing import json_text
from sghash.serve.explorer.page import document
from sghash.serve.explorer.pictures import read_picture
from sghash.serve.explorer.rows import search_texts, shown_row
from sghash.serve.explorer.sample import Sample
from sghash.serve.explorer.tradeoff import tradeoff
from sghash.serve.hosting import Hosted
from sghash.serve.refusals import Refusal, refusal_of
from sghash.validation import MAX_ID, check_ids

T = TypeVar("T")
# A map of a collection that changes is drawn anew when it is older than so many seconds.
_FRESH = 60.0
_FOUND, _DEFAULT_K = 12, 12
_MOST_BODY = 1 << 20
# The page stands in one file, its modules as data; it asks nobody but this server.
_POLICY = (
    "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline' data:; "
    "img-src 'self' data: blob:"
)
# Threads that draw: searches shall not wait for them.
_ARTISTS = 2


class _Drawn(NamedTuple):
    """A sample, what was drawn of it by name, and when that began."""

    sample: asyncio.Future[Sample]
    made: dict[str, asyncio.Future[Any]]
    since: float


class Shown:
    """One collection as it is shown; all but the work itself happens in the event loop."""

    def __init__(self, own: Hosted, images: Path | None, artists: ThreadPoolExecutor) -> None:
        self.own, self.images, self._artists = own, images, artists
        self._drawn: _Drawn | None = None

    async def drawn(self, what: str, draw: Callable[[Sample], T]) -> T:
        """Something that is drawn once of a sample: whoever asks meanwhile waits for the same."""

        async def whole() -> T:
            drawn = self._current()
            sample = await asyncio.shield(drawn.sample)
            if what not in drawn.made or _has_failed(drawn.made[what]):
                drawn.made[what] = self._begin(draw, sample)
            made: T = await asyncio.shield(drawn.made[what])
            return made

        try:
            return await self.own.in_time(whole())
        except SghashError as error:
            raise refusal_of(error) from error

    async def read(self, work: Callable[[Sample], T]) -> T:
        """Do work for one request, which needs a sample."""

        async def whole() -> T:
            sample = await asyncio.shield(self._current().sample)
            return await self.own.read(work, sample)

        try:
            return await self.own.in_time(whole())
        except SghashError as error:
            raise refusal_of(error) from error

    def looks(self, sample: Sample) -> Looks:
        """How rows look here: without files, nobody shall ask for them."""
        return sample.looks._replace(has_files=self.images is not None)

    def _current(self) -> _Drawn:
        """Rows of the collection as it is, or was a short while ago."""
        drawn = self._drawn
        if drawn is None or _has_failed(drawn.sample) or self._is_old(drawn):
            sample = self._begin(Sample, self.own.collection)
            self._drawn = drawn = _Drawn(sample, {}, time.monotonic())
        return drawn

    def _is_old(self, drawn: _Drawn) -> bool:
        if not drawn.sample.done() or time.monotonic() - drawn.since < _FRESH:
            return False
        return drawn.sample.result().moment is not self.own.collection.moment

    def _begin(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._artists, work, *arguments)
        # It was seen, also if nobody waits any more.
        future.add_done_callback(_has_failed)
        return future


def _has_failed(future: asyncio.Future[Any]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


def _found(shown: Shown, words: str, texts: list[str], sample: Sample) -> dict[str, Any]:
    """Rows whose texts hold the words typed; a key or an id is found among all rows."""
    ids = ids_found(texts, sample.ids, words, _FOUND)
    moment = shown.own.collection.moment
    typed = np.asarray(_typed(moment.state, words), np.int64)
    ids = np.concatenate([typed, ids[~np.isin(ids, typed)]])[:_FOUND]
    return rows_of(moment, ids, shown.looks(sample), sample.brightness)


def _typed(state: State, words: str) -> list[int]:
    """Ids of the rows whose key, or whose id, was typed."""
    found = [int(id_) for id_ in state.find_keys([words]) if id_ >= 0]
    if words.isascii() and words.isdigit() and len(words) <= 19 and int(words) <= MAX_ID:
        id_ = int(words)
        found += [id_] if state.find(np.array([id_])).segments[0] >= 0 and id_ not in found else []
    return found


def _texts(sample: Sample) -> list[str]:
    """What words are looked for in."""
    listed = [
        shown_row(id_, key, {n: v[at] for n, v in sample.metadata.items()}, sample.looks)
        for at, (id_, key) in enumerate(zip(sample.ids.tolist(), sample.keys, strict=True))
    ]
    return search_texts(listed)


def router_of(hosted: Mapping[str, Hosted], images: Mapping[str, Path] | None = None) -> APIRouter:
    """All addresses of the explorer; `images` names the folders of pictures by collection."""
    artists = ThreadPoolExecutor(_ARTISTS, "draw")
    shown = {name: Shown(own, (images or {}).get(name), artists) for name, own in hosted.items()}
    # They serve the page alone and change with it: nobody shall build on them.
    router = APIRouter(include_in_schema=False)

    def one(name: str) -> Shown:
        return shown[find(hosted, name).name]

    async def drawn(name: str, what: str, draw: Callable[[Sample], Any]) -> Response:
        return _json(await one(name).drawn(what, lambda sample: json_text(draw(sample))))

    async def read(name: str, work: Callable[[Shown, Sample], Any]) -> Response:
        chosen = one(name)
        return _json(await chosen.read(lambda sample: json_text(work(chosen, sample))))

    @router.get("/")
    async def page() -> HTMLResponse:
        text = document("sghash explorer", json_text({"server": "explorer"}))
        return HTMLResponse(text, headers={"content-security-policy": _POLICY})

    @router.get("/explorer")
    async def names() -> Response:
        return _json(json_text({"collections": list(shown)}))

    @router.get("/explorer/{name}/about")
    async def get_about(name: str) -> Response:
        return await drawn(name, "about", partial(about, name))

    @router.get("/explorer/{name}/map")
    async def get_map(name: str) -> Response:
        return await drawn(name, "map", drawn_map)

    @router.get("/explorer/{name}/bits")
    async def get_bits(name: str) -> Response:
        return await drawn(name, "bits", drawn_bits)

    @router.get("/explorer/{name}/tradeoff")
    async def get_tradeoff(name: str) -> Response:
        return await drawn(name, "tradeoff", tradeoff)

    @router.get("/explorer/{name}/find")
    async def get_find(name: str, words: str = "") -> Response:
        texts = await one(name).drawn("texts", _texts)
        return await read(name, lambda own, sample: _found(own, words[:200], texts, sample))

    @router.get("/explorer/{name}/rows")
    async def get_rows(name: str, ids: str = "") -> Response:
        return await read(name, partial(_rows, ids=ids))

    @router.post("/explorer/{name}/ask")
    async def ask(name: str, request: Request) -> Response:
        one(name)
        return await read(name, partial(_answered, data=await whole_body(request.receive)))

    @router.get("/explorer/{name}/image/{id_}")
    async def get_image(name: str, id_: int) -> Response:
        chosen = one(name)
        return await chosen.read(partial(_picture, chosen, id_))

    @router.get("/explorer/{name}/atlas.parquet")
    async def get_atlas(name: str) -> Response:
        return _download(name, await one(name).drawn("atlas", atlas_bytes))

    return router


def _answered(shown: Shown, sample: Sample, data: bytes) -> dict[str, Any]:
    if len(data) > _MOST_BODY:
        raise Refusal(413, f"a question has at most {_MOST_BODY} bytes: ask with fewer")
    try:
        asked = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "the body is not JSON: send an object") from error
    k = asked.get("k", _DEFAULT_K) if isinstance(asked, dict) else _DEFAULT_K
    return answer(shown.own.collection.moment, asked, k, shown.looks(sample), sample.brightness)


def _rows(shown: Shown, sample: Sample, ids: str) -> dict[str, Any]:
    try:
        numbers = [int(text) for text in ids.split(",") if text][:200]
        wanted = check_ids(np.asarray(numbers, dtype=np.int64))
    except (ValueError, OverflowError) as error:
        raise InvalidInput("ids are whole numbers with commas between them") from error
    return rows_of(shown.own.collection.moment, wanted, shown.looks(sample), sample.brightness)


def _picture(shown: Shown, id_: int, sample: Sample) -> Response:
    if shown.images is None:
        raise Refusal(404, "this server reads no files of pictures: use sghash explore --images")
    column, value = sample.looks.image, None
    if column is not None:
        state = shown.own.collection.moment.state
        value = metadata_of(state, ids_of([id_], state)).get(column, [None])[0]
    if not isinstance(value, str):
        raise Refusal(404, f"the row {id_} has no picture")
    try:
        data, kind = read_picture(shown.images, value)
    except MissingData as error:
        raise Refusal(
            404, f"the picture {value[:80]!r} is not below the folder of pictures: put it there"
        ) from error
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def _download(name: str, data: bytes) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    disposition = f'attachment; filename="{plain}.parquet"'
    return Response(
        data,
        media_type="application/vnd.apache.parquet",
        headers={"Content-Disposition": disposition},
    )


def _json(text: str) -> Response:
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})
