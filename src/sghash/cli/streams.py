"""What `-` means, for every verb alike: vectors or ids from stdin, vectors to stdout.

Stdin is copied to a temporary file first, so that it may be larger than memory and be read twice;
the file is gone when the command ends, however it ends.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click
import numpy as np
from numpy.typing import DTypeLike

import sghash
from sghash.blocks import VectorSource
from sghash.cli.mapped import MappedRows
from sghash.cli.printing import say
from sghash.cli.progress import row_bar
from sghash.data import open_vectors
from sghash.data.conversion import RowProgress, write_npy
from sghash.data.readers import npy
from sghash.data.sources import RowSource
from sghash.errors import BadFile, InvalidInput, MissingData

STDIO = "-"
# Far longer than a line of numbers or metadata can be in earnest: something else was given.
MAX_LINE_BYTES = 1 << 24
_CLAIMED = "sghash.stdin"


def claim_stdin() -> BinaryIO:
    """Stdin in bytes, for the one argument of a command that may be `-`."""
    meta = click.get_current_context().meta
    if meta.get(_CLAIMED):
        raise InvalidInput("stdin can be read once: give - for one argument only")
    meta[_CLAIMED] = True
    if sys.stdin is None:
        raise InvalidInput("stdin is closed: pipe something into the command, or name a file")
    if sys.stdin.isatty():
        say("reading from the terminal: end with Ctrl-D on a line of its own", err=True)
    return sys.stdin.buffer


def open_stdin(key: str | None) -> RowSource:
    """Vectors that come as `.npy`, or as text with one vector per line, as numbers or JSON."""
    path = spool_stdin("stdin.npy")
    with open(path, "rb") as copy:
        head = copy.read(len(npy.MAGIC))
        if not head:
            raise BadFile("stdin is empty: expected vectors as .npy, or one per line as text")
        if head != npy.MAGIC:
            if b"\0" in head:
                raise BadFile(f"stdin is neither .npy nor text: it begins with {head!r}")
            path = path.rename(path.with_suffix(".txt"))
    if key is not None and path.suffix == ".npy":
        raise InvalidInput(f"stdin holds one table and takes no key, got {key!r}")
    try:
        return open_vectors(path, key=key)
    except (BadFile, InvalidInput) as error:
        raise type(error)(str(error).replace(str(path), "stdin")) from error


def spool_stdin(name: str) -> Path:
    """Copy stdin to a temporary file called `name`, which lives as long as the command."""
    stream = claim_stdin()
    folder = tempfile.TemporaryDirectory(prefix="sghash-")
    path = Path(click.get_current_context().with_resource(folder)) / name
    with open(path, "wb") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
    return path


def check_readable(path: Path, *, once: bool = False) -> None:
    """Refuse what is no file: a folder, or a pipe that could keep us waiting for ever.

    The shell's `<(command)` is a pipe with somebody at its other end: good for reading `once`.
    """
    if not path.exists():
        raise MissingData(f"there is no file {path}: check the path")
    is_given = str(path).startswith(("/dev/fd/", "/proc/self/fd/")) or str(path) == "/dev/stdin"
    if path.is_file() or (once and is_given and path.is_fifo()):
        return
    kind = "folder" if path.is_dir() else "pipe" if path.is_fifo() else "device"
    hint = ", or - to read stdin" if once else ""
    raise BadFile(f"{path} is a {kind} and cannot be read as a file: give a file{hint}")


class Written(NamedTuple):
    """Shape and type of the vectors that a command wrote."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]


def write_rows(
    what: str,
    rows: VectorSource,
    target: str,
    *,
    overwrite: bool,
    dtype: DTypeLike | None = None,
) -> Written:
    """Write rows to a file, or as `.npy` to stdout, with a bar that says `what` is done."""
    shape = (int(rows.shape[0]), int(rows.shape[1]))
    if target != STDIO:
        refuse_existing(Path(target), overwrite)
    elif sys.stdout.isatty():
        raise InvalidInput("numbers in .npy form are not for a terminal: add > file.npy or a pipe")
    with row_bar(what) as bar:
        callback: RowProgress | None = bar
        if isinstance(rows, MappedRows):
            # It computes in smaller blocks than it is written in.
            rows.callback, callback = bar, None
        if target != STDIO:
            made = sghash.convert(rows, target, dtype=dtype, overwrite=overwrite, callback=callback)
            return Written(shape, made.dtype)
        stored = write_npy(rows, sys.stdout.buffer, dtype=dtype, callback=callback)
    sys.stdout.buffer.flush()
    return Written(shape, stored)


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Before any work is done: refuse to write where something is, unless asked to."""
    if path.exists() and not overwrite:
        raise InvalidInput(f"{path} exists already: give another name or --overwrite")
