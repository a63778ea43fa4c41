"""A collection on a server, asked as one on this machine; needs nothing but the standard library.

`sghash.connect("http://127.0.0.1:8080")` is the way in.
"""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote, urlsplit

from sghash.client.connection import Connection, Retries
from sghash.client.remote import RemoteCollection
from sghash.errors import InvalidInput

__all__ = ["RemoteCollection", "Retries", "connect"]


def connect(
    address: str,
    collection: str | None = None,
    *,
    api_key: str | None = None,
    timeout: float = 60.0,
    retries: int = 4,
) -> RemoteCollection:
    """Ask a collection of a server that `sghash serve` runs, by the verbs of `Collection`.

    `address` is as in "http://127.0.0.1:8080"; where the server has several collections, give the
    name of one. Calls that change nothing twice are repeated up to `retries` times, after longer
    and longer pauses; `add` and `delete` only where the server has not begun. `timeout` is what
    each try may take, in seconds.
    """
    if type(retries) is not int or retries < 0:
        raise InvalidInput(f"retries must be a whole number from 0 on, got {retries!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
        raise InvalidInput(f"timeout must be a number of seconds above 0, got {timeout!r}")
    parts = _parts(address)
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("an address has no user, ? or #: give the key as api_key")
    root, _, name = parts.path.rstrip("/").partition("/collections/")
    if name and collection is not None:
        raise InvalidInput("the address names a collection already: leave out `collection`")
    chosen = unquote(name) or collection
    connection = Connection(
        parts.scheme, parts.hostname or "", parts.port, root,
        api_key=api_key, timeout=timeout, retries=Retries(retries),
    )  # fmt: skip
    if chosen is None:
        known = list(connection.ask("GET", "/collections")["collections"])
        if len(known) != 1:
            raise InvalidInput(
                f"the server has the collections {', '.join(known)}: say which, as in "
                f'sghash.connect("{address}", "{known[0]}")'
            )
        chosen = known[0]
    remote = RemoteCollection(connection, f"/collections/{quote(chosen, safe='')}")
    remote.stats()  # a name that is not there is refused here
    return remote


def _parts(address: str) -> SplitResult:
    """An address taken apart; what is none is refused here, not by the system on every try."""
    try:
        parts = urlsplit(address)
        is_plain = address.isprintable() and " " not in address and parts.path.isascii()
        is_there = parts.port != 0 and bool((parts.hostname or "").encode("idna"))
    except (ValueError, AttributeError, TypeError):
        is_plain = is_there = False
    if not (is_plain and is_there and parts.scheme in ("http", "https")):
        raise InvalidInput(f"{address!r} is no address: write it as in http://127.0.0.1:8080")
    return parts
