"""Requests over HTTP: kept connections, repeated calls, and errors as the library raises them."""

from __future__ import annotations

import http.client
import json
import os
import random
import time
from collections import deque
from typing import Any, NamedTuple

from sghash import errors
from sghash.errors import InvalidInput, NotAllowed, SghashError, Unreachable

# Connections that are kept for later calls.
_KEPT = 16
_LONGEST_PAUSE = 5.0
# What took too long once would take as long again: a 504 is not among these.
_BUSY = (503,)


class Retries(NamedTuple):
    """How often a call is repeated, and the first pause in seconds; each doubles the last."""

    most: int = 4
    first_pause: float = 0.1

    def pause(self, number: int) -> float:
        """Seconds before a repetition; not the same for all who were turned away at once."""
        longest = min(_LONGEST_PAUSE, self.first_pause * 2.0**number)
        return longest * random.uniform(0.5, 1.0)


class _Failed(Exception):
    """A try without an answer; `is_unsent` where the server cannot have begun."""

    def __init__(self, reason: str, *, is_unsent: bool) -> None:
        super().__init__(reason)
        self.is_unsent = is_unsent


class Connection:
    """A server; several threads may ask at once."""

    def __init__(
        self,
        scheme: str,
        host: str,
        port: int | None,
        root: str,
        *,
        api_key: str | None,
        timeout: float,
        retries: Retries,
    ) -> None:
        self._kind = (
            http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        )
        self._host, self._port, self._root, self._timeout = host, port, root, timeout
        self._retries = retries
        self._headers = {"accept": "application/json", "accept-encoding": "identity"}
        if api_key is not None:
            if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
                raise InvalidInput("api_key must be of printable ASCII characters without blanks")
            self._headers["authorization"] = f"Bearer {api_key}"
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"{self._host}:{self._port}" if self._port else self._host

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.popleft().close()

    def ask(
        self, method: str, path: str, fields: Any = None, *, is_idempotent: bool = True
    ) -> dict[str, Any]:
        """The answer to a request, or the error that the library itself would have raised."""
        body = None if fields is None else json.dumps(fields).encode()
        for number in range(self._retries.most + 1):
            try:
                status, found, pause = self._try(method, path, body, is_fresh=not is_idempotent)
            except _Failed as failed:
                reason = str(failed)
                if not (is_idempotent or failed.is_unsent):
                    raise Unreachable(
                        f"{self!r} gave no answer ({reason}): what was asked may have been done, "
                        "look before you repeat it"
                    ) from failed
                wait = self._retries.pause(number)
            else:
                if status == 200:
                    return found
                # With a pause to be made, the server has not begun.
                if pause is None and not (is_idempotent and status in _BUSY):
                    raise _error(status, found)
                reason, wait = str(found.get("detail")), pause or self._retries.pause(number)
            if number < self._retries.most:
                time.sleep(wait)
        raise Unreachable(
            f"{self!r} gave no answer in {self._retries.most + 1} tries ({reason}): "
            "is sghash serve running there?"
        )

    def _try(
        self, method: str, path: str, body: bytes | None, *, is_fresh: bool
    ) -> tuple[int, dict[str, Any], float | None]:
        connection = self._taken(is_fresh)
        headers = dict(self._headers)
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            if connection.sock is None:
                connection.connect()
        except OSError as error:
            connection.close()
            raise _Failed(str(error), is_unsent=True) from error
        try:
            connection.request(method, self._root + path, body=body, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            text = str(error) or type(error).__name__
            raise _Failed(text, is_unsent=False) from error
        except BaseException:
            connection.close()  # the answer to an interrupted call is not one to the next
            raise
        self._idle.append(connection)
        while len(self._idle) > _KEPT:
            self._idle.popleft().close()
        after = answer.getheader("retry-after")
        pause = min(float(after), _LONGEST_PAUSE) if after and after.isdigit() else None
        return answer.status, _object(data), pause

    def _taken(self, is_fresh: bool) -> http.client.HTTPConnection:
        if self._process != os.getpid():
            # The child of a fork must not use connections of its parent.
            self._idle, self._process = deque(), os.getpid()
        try:
            if not is_fresh:
                return self._idle.pop()
        except IndexError:
            pass
        return self._kind(self._host, self._port, timeout=self._timeout)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"detail": data[:200].decode(errors="replace")}


def _error(status: int, body: dict[str, Any]) -> SghashError:
    """What a server says is wrong, as the class it names."""
    text = str(body.get("detail") or f"the server answered with the status {status}")
    kind = getattr(errors, str(body.get("error")), None)
    if isinstance(kind, type) and issubclass(kind, SghashError):
        return kind(text)
    if status in (401, 403):
        return NotAllowed(text)
    return Unreachable(text) if status >= 500 else InvalidInput(text)
