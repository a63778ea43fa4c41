"""`sghash completion`: the script that makes a shell complete verbs, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sghash.cli.frame import examples, program


@click.command(
    "completion",
    epilog=examples(
        'eval "$(sghash completion bash)"',
        'eval "$(sghash completion zsh)"',
        "sghash completion fish | source",
    ),
)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script with which SHELL completes verbs, options, models, data sets and formats.

    SHELL is bash, zsh or fish; its line below goes in the file that it reads when it starts.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click knows no completion for {shell}")
    click.echo(kind(program, {}, "sghash", "_SGHASH_COMPLETE").source())
