"""The frame that every verb hangs on: lazy loading, readable errors, exit codes, `--json`."""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

import sghash
from sghash.cli.printing import PrintableFormatter, printable, say, shortened
from sghash.errors import SghashError

_log = logging.getLogger("sghash.cli")

#: Every verb and its line of help; its module, `cli/verbs/<verb>.py`, is loaded when it is called.
VERBS: dict[str, str] = {
    "demo": "Fit, encode and search on built-in data, and show the result.",
    "fit": "Learn a model from vectors.",
    "encode": "Turn vectors into packed codes with a fitted model.",
    "decode": "Turn packed codes back into vectors.",
    "create": "Make a collection, a folder of codes that can be searched.",
    "add": "Add vectors to a collection, with ids and metadata.",
    "search": "Find the nearest rows of a collection.",
    "explore": "Look at a collection in a browser, or as one HTML file.",
    "delete": "Delete rows of a collection.",
    "plan": "Say what so many vectors will take: bytes, minutes, milliseconds.",
    "tune": "Measure recall, speed and bytes of searches of a collection.",
    "evaluate": "Measure codes and the searches they serve on your vectors.",
    "reproduce": "Measure the claims of the paper again, with verdicts.",
    "serve": "Answer for collections over HTTP.",
    "convert": "Write vectors in another file format.",
    "info": "Say what a file, a folder, a name or this installation is.",
    "verify": "Read a collection, a model or an index, and check every byte.",
    "backup": "Copy a collection, consistently, and verify the copy.",
    "push": "Bring the codes of a collection to a database.",
    "pull": "Bring codes from a database to a collection.",
    "completion": "Print the completion script of a shell.",
}

#: What each exit code means, in the words of `--help`.
EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "failed, one sentence on stderr says why",
    2: "wrong usage",
    3: "a fault of sghash itself",
    130: "interrupted by Ctrl-C",
    143: "ended by a signal",
}

# What the library calls an argument of Python, and the option that stands for it here.
_OPTIONS = {
    "overwrite=True": "--overwrite",
    'rerank="none"': "--rerank none",
    'rerank="decoder"': "--rerank decoder",
    'rerank="vectors"': "--rerank vectors",
    'keep_vectors="float16"': "--keep-vectors float16",
    'keep_vectors="float32"': "--keep-vectors float32",
    "leave partitions out": "leave --partitions out",
    "target_recall": "--target-recall",
    ", or open it here with writable=False": "",
    "ask for it with dtype='": "ask for it with '--dtype ",
    ": use upsert": ": use --upsert",
    ": ask first with `key in collection`": "",
    ": ask first with `id in collection`": "",
    "say metric= if": "say --metric if",
}


class _Verbs(click.Group):
    """A group that imports a verb's module when the verb is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"sghash.cli.verbs.{name}").command
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = arguments[0] if arguments else ""
        near = difflib.get_close_matches(verb, VERBS, n=1)
        if verb not in VERBS and near and not verb.startswith("-"):
            context.fail(f"There is no verb {verb!r}: did you mean {near[0]}?")
        return super().resolve_command(context, arguments)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        # The list needs one line each, not the import of every verb.
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Results go to stdout, progress and errors to stderr; - is stdin or stdout. "
    "A verb explains itself: sghash search --help.\n\n"
    "\b\nFirst steps, with built-in data:\n"
    "  sghash create my-digits digits.base --metadata digits.base\n"
    "  sghash search my-digits digits.queries --stop 3\n\n"
    "\b\nExit codes:\n" + "\n".join(f"  {code:3}  {text}" for code, text in EXIT_CODES.items()),
)
@click.version_option(sghash.__version__, prog_name="sghash")
@click.option("-v", "--verbose", is_flag=True, help="Also show what the library logs.")
def program(verbose: bool) -> None:
    """Learned codes for vectors, and search over them."""
    level = logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON."
)


class AddressCommand(click.Command):
    """A verb that takes the address of a database, which may hold a password."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """As click does it, but an argument too many is not repeated."""
        context.allow_extra_args = True
        left = super().parse_args(context, arguments)
        if left and not context.resilient_parsing:
            context.fail(
                f"{len(left)} more than the arguments that this verb takes; they are not repeated "
                "here, since an address may hold a password."
            )
        return left


def examples(*lines: str) -> str:
    """The end of a verb's help; the lines stay as they are, however narrow the terminal is."""
    return "\b\n" + "\n  ".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; turn every failure into one sentence and an exit code."""
    if hasattr(sys.stdout, "reconfigure"):
        # A name or a metadata text that the terminal cannot show must not end the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_run(arguments))
    finally:
        if arguments is None:
            # All is done and said: an impatient second Ctrl-C shall not end it with a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(arguments: Sequence[str] | None) -> int:
    """Run a verb and say on stderr why it failed, if it does; returns the exit code."""
    try:
        with _ended_like_interrupted():
            code = program.main(args=arguments, prog_name="sghash", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _said("interrupted", 130)
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        for line in usage.getvalue().splitlines():
            say(shortened(line.replace("\t", "    ")), err=True)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone: leave quietly, as other filters do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if _was_interrupted(error):
            return _said("interrupted", 130)
        _log.info("this is where it failed", exc_info=error)
        if isinstance(error, (SghashError, OSError, MemoryError, RecursionError, UnicodeError)):
            return _said(_sentence(error), 1)
        text = " ".join(str(error).split())
        what = f"a fault of sghash, please report it ({type(error).__name__}: {text})"
        return _said(f"{what}; sghash -v VERB ... shows where", 3)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: a package that is loading turns it into an ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Let a polite end by the system clean up what Ctrl-C cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this: use fewer vectors, or a file read by blocks"
    if isinstance(error, RecursionError):
        return "an argument is nested too deeply: write it in a simpler way"
    if isinstance(error, UnicodeError) and not isinstance(error, SghashError):
        return f"an argument is no text in UTF-8, or not of the kind expected here ({error})"
    if isinstance(error, SghashError):
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        for python, option in _OPTIONS.items():
            text = text.replace(python, option)
        return text
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file {error.filename}: check the path"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _said(message: str, code: int) -> int:
    """Say one line, however strange or long the names in it are; returns the exit code."""
    say(f"sghash: {shortened(printable(message))}", err=True)
    return code
