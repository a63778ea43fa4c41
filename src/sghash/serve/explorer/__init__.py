"""The explorer: what a collection's codes mean, computed here, drawn by the files in `page/`.

Plain functions over an open collection; `routes` puts them behind addresses for a server, and
`export` into one HTML file that needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sghash.collection import Collection

if TYPE_CHECKING:
    from fastapi import APIRouter


def routes(
    collections: Mapping[str, Collection], images: Mapping[str, Path] | None = None
) -> APIRouter:
    """The page at `/` and what it asks for below `/explorer`, for open collections by name.

    For an application of your own; `sghash.serve.app.create_app` has them, and limits and keys.
    `images` names the folder of each collection's files of pictures; without one none are read.
    """
    from concurrent.futures import ThreadPoolExecutor

    from sghash.serve.explorer.router import router_of
    from sghash.serve.hosting import READERS, Hosted
    from sghash.serve.metrics import Metrics
    from sghash.serve.settings import Settings

    settings, metrics, readers = Settings(), Metrics(), ThreadPoolExecutor(READERS, "read")
    hosted = {
        name: Hosted(name, collection, settings, metrics, readers)
        for name, collection in collections.items()
    }
    return router_of(hosted, images)
