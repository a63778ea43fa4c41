"""Options of `create` that say what rows are to those who look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sghash.cli.rows_in import Incoming
from sghash.collection import Collection
from sghash.collection.roles import COLUMN_ROLES, PICTURE, are_roles
from sghash.errors import InvalidInput

_OPTIONS = {
    "image": ("--image-column", "NAME", "Column of --metadata with each row's picture: its file."),
    "text": ("--text-column", "NAME", "Column of --metadata with what to read of each row."),
    "label": ("--label-column", "NAME", "Column of --metadata to colour rows by."),
    "picture": ("--picture", "HxW", "Each vector is a picture itself: 8x8, or 32x32x3 in colours."),
}


def role_options(function: Any) -> Any:
    """`--image-column`, `--text-column`, `--label-column` and `--picture`, as one mapping."""
    for role, (option, metavar, help_) in reversed(_OPTIONS.items()):
        decorate = click.option(
            option, role, metavar=metavar, help=help_, expose_value=False, callback=_collect
        )
        function = decorate(function)
    return function


def _collect(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(__name__, {})[str(parameter.name)] = value


def roles_of(context: click.Context, incoming: Incoming | None) -> dict[str, str]:
    """The roles on the command line; refused at once where the rows cannot have them."""
    roles: dict[str, str] = context.meta.get(__name__, {})
    known = {} if incoming is None else incoming.columns
    for role in COLUMN_ROLES:
        if role in roles and incoming is not None and roles[role] not in known:
            raise InvalidInput(
                f"{_OPTIONS[role][0]} {roles[role]}: there is no such column in --metadata; it has "
                f"{', '.join(sorted(known)) or 'none'}"
            )
    if PICTURE in roles and incoming is not None:
        width = incoming.rows.shape[1]
        if not are_roles({PICTURE: roles[PICTURE]}, width):
            raise InvalidInput(
                f"--picture {roles[PICTURE]}: the vectors have {width} numbers; give height and "
                "width as in 8x8, or 32x32x3 for colours"
            )
    return roles


def keep_roles(collection: Path, roles: dict[str, str]) -> None:
    """Let the new collection know its roles."""
    if roles:
        with Collection.open(collection, writable=True) as opened:
            opened.describe(**roles)
