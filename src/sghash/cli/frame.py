"""The frame that every verb hangs on: lazy loading, readable errors, exit codes, `--json`."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

import sghash
from sghash.errors import SghashError

#: Every verb: name -> (module, one line of help). Loaded when it is called.
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("sghash.cli.demo", "Fit, encode and search on built-in data, and show the result."),
    "fit": ("sghash.cli.fit", "Learn a model from a file of vectors."),
    "encode": ("sghash.cli.encode", "Turn vectors into packed codes with a fitted model."),
    "decode": ("sghash.cli.decode", "Turn packed codes back into vectors."),
    "evaluate": ("sghash.cli.evaluate", "Measure models and code lengths on your vectors."),
    "convert": ("sghash.cli.convert", "Write vectors in another file format."),
    "info": ("sghash.cli.info", "Tell what a model, an index or this installation is."),
}


class _Verbs(click.Group):
    """A group that imports a verb's module when the verb is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[name][0]).command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        # The list needs one line each, not the import of every verb.
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(sghash.__version__, prog_name="sghash")
@click.option("-v", "--verbose", is_flag=True, help="Also show what the library logs.")
def program(verbose: bool) -> None:
    """Learned binary codes for vectors, and exact search over them."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr)


json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON."
)


def show(result: Any, table: str, *, as_json: bool) -> None:
    """Print a result on stdout: as JSON, or as the given text."""
    click.echo(json.dumps(result, indent=2) if as_json else table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; turn every expected failure into one sentence and an exit code."""
    try:
        code = program.main(args=arguments, prog_name="sghash", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        _stop("interrupted", 130)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except click.ClickException as error:
        error.show(sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has gone: leave quietly, as other filters do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SghashError as error:
        _stop(error.strerror if isinstance(error, OSError) and error.strerror else str(error), 1)
    except (OSError, MemoryError) as error:
        _stop(_sentence(error), 1)


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this: use fewer vectors, or a file read by blocks"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _stop(message: str, code: int) -> None:
    click.echo(f"sghash: {message}", err=True)
    sys.exit(code)
