"""What columns and vectors are to those who look at rows: pictures, texts, labels."""

from __future__ import annotations

import math
import re
from collections.abc import Collection as Names, Mapping
from typing import Any

from sghash.errors import InvalidInput

#: What a column, or a vector, may be to those who look at rows.
COLUMN_ROLES = ("image", "text", "label")
PICTURE = "picture"
_SIZE = re.compile(r"[1-9][0-9]{0,3}x[1-9][0-9]{0,3}(x3)?", re.ASCII)


def are_roles(roles: Mapping[Any, Any], width: int) -> bool:
    """Whether a manifest may say these: known names, columns, and a picture of `width` numbers."""
    columns = [value for name, value in roles.items() if name in COLUMN_ROLES]
    right = all(isinstance(value, str) and value.isidentifier() for value in columns)
    size = roles.get(PICTURE)
    if size is not None:
        sized = isinstance(size, str) and bool(_SIZE.fullmatch(size))
        right = right and sized and math.prod(map(int, size.split("x"))) == width
    return right and len(columns) + (size is not None) == len(roles)


def check_roles(
    said: Mapping[str, str | None], width: int, columns: Names[str] | None
) -> dict[str, str]:
    """The roles that were given, or one sentence; None for columns where no row has any yet."""
    roles = {name: value for name, value in said.items() if value is not None}
    unknown = sorted(roles.keys() - {*COLUMN_ROLES, PICTURE})
    if unknown:
        known = ", ".join([*COLUMN_ROLES, PICTURE])
        raise InvalidInput(f"there is no role {unknown[0]!r}: roles are {known}")
    size = roles.get(PICTURE)
    if size is not None and not are_roles({PICTURE: size}, width):
        raise InvalidInput(
            f"a vector here has {width} numbers, so it is no picture of {size!r}: give height and "
            'width as in "8x8", or "32x32x3" for colours'
        )
    for role in COLUMN_ROLES:
        column = roles.get(role)
        if column is None:
            continue
        there = columns is None or column in columns
        if not are_roles({role: column}, width) or not there:
            raise InvalidInput(
                f"there is no metadata column {column!r} for the {role}: the columns here are "
                f"{', '.join(sorted(columns or ())) or 'none'}"
            )
    return roles
