"""Every exception that `sghash` raises on purpose.

    SghashError
    ├── InvalidInput      (ValueError)    a value that cannot be used: width, range, NaN, ...
    │   └── InvalidDtype  (TypeError)     the right shape of the wrong kind of number
    ├── NotFitted         (ValueError, AttributeError)  a model that has not learned yet
    ├── BadFile           (ValueError)    a file is truncated, damaged or not what it says it is
    │   └── NewerFormat                   a file was written by a later version of sghash
    ├── MissingExtra      (ImportError)   an optional package is not installed
    ├── MissingData       (FileNotFoundError)  a data set is neither here nor downloadable
    ├── Diverged          (ArithmeticError)    training left the finite numbers
    ├── StorageError      (OSError)       the disk refused: full, read-only, locked by another
    ├── NotAllowed        (PermissionError)    a server asks for a key, or for another one
    └── Unreachable       (ConnectionError)    a server is not there, too busy or too slow

Each also inherits from the builtin that a caller who does not know us would catch.
What an unfitted model raises is scikit-learn's own `NotFittedError` as well.
"""

from __future__ import annotations


class SghashError(Exception):
    """The root: catches everything this package raises on purpose."""


class InvalidInput(SghashError, ValueError):
    """An argument has a value that cannot be used."""


class InvalidDtype(InvalidInput, TypeError):
    """An array holds the wrong kind of number."""


class NotFitted(SghashError, ValueError, AttributeError):
    """A model is used before it has learned, or after a change that asks for another fit."""


class BadFile(SghashError, ValueError):
    """A file is truncated, damaged or not of the kind it claims to be."""


class NewerFormat(BadFile):
    """A file was written by a later version of sghash than this one."""


class MissingExtra(SghashError, ImportError):
    """An optional package is needed and not installed."""


class MissingData(SghashError, FileNotFoundError):
    """A data set is neither on this machine nor can it be downloaded now."""


class Diverged(SghashError, ArithmeticError):
    """Training left the finite numbers; the model is as it was before."""


class NotAllowed(SghashError, PermissionError):
    """A server asks for a key, or for one that may do more."""


class Unreachable(SghashError, ConnectionError):
    """A server is not there, does not answer in time, or has too much to do."""


class StorageError(SghashError, OSError):
    """The disk refused: it is full, read-only or locked by another writer."""

    def __str__(self) -> str:
        # The number is for programs (`error.errno`); people get the sentence alone.
        return str(self.strerror) if self.strerror else super().__str__()
