"""The server of `sghash explore`: that of `sghash serve`, for one person and with a browser."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path

from sghash.collection import Collection
from sghash.optional import require


def explore(
    collections: Mapping[str, Collection],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    images: Mapping[str, Path] | None = None,
    browse: bool = True,
    said: Callable[[str], None],
) -> None:
    """Serve the explorer until interrupted; `said` is told its address. Port 0 is any free one."""
    for module in ("fastapi", "uvicorn", "httptools"):
        require(module, extra="serve")
    from sghash.serve.logs import Journal
    from sghash.serve.running import serve_collections
    from sghash.serve.settings import Settings

    def listening(address: str) -> None:
        said(f"{address}/")
        if browse:
            # Some browsers return only when they are closed.
            threading.Thread(target=webbrowser.open, args=(f"{address}/",), daemon=True).start()

    serve_collections(
        collections, Settings(log_requests=False), Journal(is_quiet=True),
        host=host, port=port, images=images, listening=listening,
    )  # fmt: skip
