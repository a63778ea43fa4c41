"""Structured logs: one JSON object per line on stderr."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

_LEVELS = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "error"}


class Journal:
    """Writes events, each as one line; a pipe that nobody reads any more is no error.

    One that is quiet says only what went wrong.
    """

    def __init__(self, stream: TextIO | None = None, *, is_quiet: bool = False) -> None:
        self._stream, self._is_quiet = stream, is_quiet

    def note(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """One event with its facts."""
        if self._is_quiet and level == "info":
            return
        line = {"time": _now(), "level": level, "event": event} | facts
        self.write(json.dumps(line, default=str) + "\n")

    def request(
        self, request_id: str, method: str, path: str, status: int, seconds: float, client: str
    ) -> None:
        """One request that was answered."""
        self.note(
            "request", level="error" if status == 500 else "info", request_id=request_id,
            method=method, path=path[:400], status=status, ms=round(seconds * 1e3, 3),
            client=client,
        )  # fmt: skip

    def write(self, text: str) -> None:
        """Text as it is."""
        stream = self._stream or sys.stderr
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            return  # there is nowhere left to say it


class JournalHandler(logging.Handler):
    """What libraries log, as events of a journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """One record; an error with the way to it."""
        facts: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            facts["trace"] = logging.Formatter().formatException(record.exc_info)
        self._journal.note("log", level=_LEVELS.get(record.levelname, "info"), **facts)


def _now() -> str:
    seconds = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"
