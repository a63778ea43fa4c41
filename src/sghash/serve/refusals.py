"""What a request is refused with: a status, a sentence, and the class of the error."""

from __future__ import annotations

import logging
import os
from typing import Any

from starlette.exceptions import HTTPException

from sghash.errors import (
    BadFile,
    Diverged,
    InvalidInput,
    MissingData,
    MissingExtra,
    NotFitted,
    SghashError,
    StorageError,
)

_log = logging.getLogger("sghash.serve")

#: Every status that an error is answered with -> what it means.
STATUSES: dict[int, str] = {
    400: "The body, a parameter or the request itself cannot be read.",
    401: "A key is needed, and none or a wrong one was given.",
    403: "The key, or the server, does not allow this.",
    404: "There is no such collection or address.",
    405: "The address does not know this method.",
    406: "There is no answer of a kind that Accept names.",
    408: "The request took too long to arrive.",
    413: "The body or the answer would be too large.",
    415: "The body is of a kind that cannot be read.",
    421: "The request is for another name than this server answers under.",
    422: "The request can be read, and asks for what cannot be done.",
    431: "The request has too many headers, or too long ones.",
    503: "The server is busy or stopping, or cannot read its files; nothing was done.",
    504: "The answer took too long.",
    507: "The disk refused a write.",
}

# The first that fits: a class of errors and its status.
_STATUS_OF: tuple[tuple[type[SghashError], int], ...] = (
    (InvalidInput, 422),
    (NotFitted, 422),
    (MissingExtra, 415),
    (StorageError, 507),
    (BadFile, 503),
    (MissingData, 503),
    (Diverged, 422),
)

# What the library calls by a name of Python, and what it is called here.
_WORDS = {
    ": ask first with `key in collection`": "",
    ": ask first with `id in collection`": "",
    "give one truth value for each of its `ids`": "give the ids themselves",
    "open it with writable=True": "start the server with --writable",
}

# Errors that name files of the server, and what others are told instead of it.
_PRIVATE: tuple[tuple[type[SghashError], str], ...] = (
    (StorageError, "the disk refused"),
    (BadFile, "a file of this collection is damaged, or of a later version"),
    (MissingData, "a file that is needed for this is missing"),
)

RETRY_SECONDS = 1


class Refusal(HTTPException):
    """A request that is not answered, and why; `retry` where it may be sent again."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        error: str = "InvalidInput",
        retry: bool = False,
        allow: str | None = None,
    ) -> None:
        headers = {"retry-after": str(RETRY_SECONDS)} if retry else {}
        super().__init__(status, detail, headers | ({"allow": allow} if allow else {}))
        self.error = error

    def body(self, request_id: str) -> dict[str, Any]:
        """What is answered, as JSON."""
        return {"detail": self.detail, "error": self.error, "request_id": request_id}


def refusal_of(error: Exception) -> Refusal:
    """Any error of ours, of the framework or of Python, as a refusal."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        known = STATUSES.get(error.status_code)
        detail = known if known and error.status_code in (404, 405) else str(error.detail)
        return Refusal(error.status_code, detail, error="SghashError")
    if isinstance(error, SghashError):
        status = next((code for kind, code in _STATUS_OF if isinstance(error, kind)), 422)
        return Refusal(status, _sentence(error), error=type(error).__name__)
    if isinstance(error, MemoryError):
        return Refusal(
            503, "there is not enough memory for this: ask for less", error="MemoryError"
        )
    if isinstance(error, (RecursionError, UnicodeError)):
        return Refusal(422, "a value is nested too deeply, or is no text: write it simpler")
    return Refusal(500, "a fault of sghash, please report it with the request id", error="Fault")


def _sentence(error: SghashError) -> str:
    """What is said of an error; where files are is for the log alone."""
    for kind, told in _PRIVATE:
        if isinstance(error, kind):
            _log.warning("refused a request: %s", error)
            number = getattr(error, "errno", None)
            reason = f" ({os.strerror(number)})" if number else ""
            return f"{told}{reason}: whoever runs the server finds more in its log"
    text = str(error)
    for python, here in _WORDS.items():
        text = text.replace(python, here)
    return text
