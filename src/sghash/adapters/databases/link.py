"""A connection to PostgreSQL, as its index needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from sghash.errors import InvalidInput, StorageError
from sghash.guards import Guard
from sghash.optional import require

#: bit_count came with PostgreSQL 14.
OLDEST = 140000
#: Parts of an address that are told to nobody.
_SECRETS = ("password", "sslpassword")
_Answer = TypeVar("_Answer")


class Link:
    """A connection that is made again when it is lost, and never tells its address.

    Threads may share it: one transaction or one question at a time.
    """

    def __init__(self, address: str) -> None:
        self._psycopg = require("psycopg", extra="postgresql")
        if not isinstance(address, str):
            raise InvalidInput('the address must be a text such as "postgresql://host/database"')
        _refuse_bare_signs(address)
        said = self._parts_of(address)
        if said is None:
            raise InvalidInput(
                'the address of the database cannot be read: write "postgresql://host/database", '
                "with %-signs for special characters"
            )
        self._address = address
        self._secrets = [str(said[name]) for name in _SECRETS if said.get(name)]
        self._connection: Any = None
        self.guard = Guard(reentrant=True)
        self._connect()

    def _parts_of(self, address: str) -> dict[str, Any] | None:
        """What an address says; None where it cannot be read, and nothing of it is repeated."""
        try:
            return dict(self._psycopg.conninfo.conninfo_to_dict(address))
        except self._psycopg.Error:
            return None

    def _connect(self) -> None:
        refused = ""
        try:
            self._connection = self._psycopg.connect(self._address, autocommit=True)
        except self._psycopg.Error as error:
            refused = self._told(error)
        if refused:  # outside of the handler: an error keeps the one that it comes from
            raise StorageError(f"PostgreSQL cannot be reached: {refused}")
        version = self._connection.info.server_version
        if version < OLDEST:
            self.close()
            raise InvalidInput(
                f"the server is PostgreSQL {version // 10000}, which cannot count bits: use "
                f"{OLDEST // 10000} or later"
            )

    def close(self) -> None:
        """End the connection."""
        with self.guard.lock:
            if self._connection is not None:
                self._connection.close()

    def ask(self, statement: str, values: list[Any] | None = None) -> list[Any]:
        """Run a statement inside a transaction."""
        found = self._connection.execute(statement, values)
        return list(found.fetchall()) if found.description is not None else []

    def read(
        self,
        statement: str,
        values: list[Any] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Run a statement that changes nothing, on a new connection if this one is lost.

        `settings` of the server hold for this statement.
        """

        def run() -> list[Any]:
            if not settings:
                return self.ask(statement, values)
            with self._connection.transaction():
                for name, value in settings.items():
                    self.ask("SELECT set_config(%s, %s, true)", [name, value])
                return self.ask(statement, values)

        return self._again_if_lost(run)

    def copy_out(self, statement: str, values: list[Any] | None) -> bytes:
        """What a COPY ... TO STDOUT sends, on a new connection if this one is lost."""

        def run() -> bytes:
            with self._connection.cursor().copy(statement, values) as copy:
                return b"".join(copy)

        return self._again_if_lost(run)

    def copy_in(self, statement: str, data: bytes) -> None:
        """Send the rows of a COPY ... FROM STDIN, inside a transaction."""
        with self._connection.cursor().copy(statement) as copy:
            copy.write(data)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is asked within happens, or nothing."""
        with self.guard.lock:
            if self._connection.closed:
                self._connect()
            try:
                with self._connection.transaction():
                    yield
            except self._psycopg.Error as error:
                if self._connection.closed:
                    raise StorageError(
                        "the connection to PostgreSQL was lost during a change, which is there "
                        "whole or not at all: look which, and repeat it if it is not"
                    ) from None
                raise StorageError(
                    f"PostgreSQL refused, and nothing was changed: {self._told(error)}"
                ) from None

    def _again_if_lost(self, run: Callable[[], _Answer]) -> _Answer:
        with self.guard.lock:
            return self._asked_twice(run)

    def _asked_twice(self, run: Callable[[], _Answer]) -> _Answer:
        for attempt in (1, 2):
            if self._connection.closed:
                self._connect()
            try:
                return run()
            except self._psycopg.Error as error:
                if self._connection.closed and attempt == 1:
                    continue
                raise StorageError(f"PostgreSQL could not answer: {self._told(error)}") from None
        raise AssertionError("the second attempt returns or raises")

    def _told(self, error: Exception) -> str:
        """What the server says, in one line, without the password."""
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _refuse_bare_signs(address: str) -> None:
    """Refuse a URI with a password whose @ or / would end it: the rest would be the host's name.

    libpq takes what stands before the first @ for user and password, if no / comes before it.
    """
    scheme, found, rest = address.partition("://")
    if not found or scheme not in ("postgresql", "postgres"):
        return
    authority, _, path = rest.partition("/")
    if authority.count("@") > 1 or "@" in path.partition("?")[0]:
        raise InvalidInput(
            "the address of the database has more than one @, or one behind a /: within a name or "
            "a password write @ as %40 and / as %2F"
        )
