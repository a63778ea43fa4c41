"""The page: the files of `page/` put together into one HTML document that loads nothing else."""

from __future__ import annotations

import base64
import html
import json
from functools import cache
from importlib.resources import files

_PLACES = ("title", "style", "modules", "data")


@cache
def _text(name: str) -> str:
    return (files("sghash.serve") / "page" / name).read_text(encoding="utf-8")


@cache
def _module_names() -> tuple[str, ...]:
    folder = files("sghash.serve") / "page"
    return tuple(sorted(item.name for item in folder.iterdir() if item.name.endswith(".js")))


def document(title: str, data: str) -> str:
    """One HTML document; `data` is JSON for the page: a server's address, or whole collections.

    Modules import each other by names ("explorer/map.js"); an import map says where each is, and
    there each stands whole, so that one file is enough and nothing has to be built.
    """
    modules = {
        f"explorer/{name}": "data:text/javascript;base64,"
        + base64.b64encode(_text(name).encode()).decode("ascii")
        for name in _module_names()
    }
    parts = {
        "title": html.escape(title),
        "style": _text("look.css"),
        "modules": json.dumps({"imports": modules}),
        # Nothing in a text may end the script that holds it.
        "data": data.replace("</", "<\\/").replace("<!--", "<\\u0021--"),
    }
    text = _text("index.html")
    pieces = []
    for name in _PLACES:
        before, _, text = text.partition("{{" + name + "}}")
        pieces += [before, parts[name]]
    return "".join([*pieces, text])
