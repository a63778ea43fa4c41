"""Tables with named columns (pandas, polars, Arrow): what in them is a vector, and what is not.

Nothing is imported here: a table is known by what it has, so none of these packages is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sghash.errors import InvalidDtype

# Names of columns that say which row it is, not where it lies.
_IDS = ("id", "ids", "_id", "key", "uuid", "index", "rowid", "row_id")
_FLOATS = ("float", "double", "halffloat")
_WHOLE = ("int", "uint")
_LISTS = ("list", "array", "fixed_size_list", "large_list")


def columns_of(X: Any) -> list[tuple[str, str]] | None:
    """Name and type of each column of a table with named columns; None for anything else."""
    if hasattr(X, "column_names") and hasattr(X, "schema"):  # Arrow
        return [(str(field.name), str(field.type).lower()) for field in X.schema]
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # pandas, polars
        names: Sequence[Any] = list(X.columns)
        return [(str(n), str(t).lower()) for n, t in zip(names, list(X.dtypes), strict=True)]
    return None


def refuse_frame(X: Any) -> None:
    """Refuse a table whose columns are not all coordinates of vectors, and name those that are not.

    Columns of floats are coordinates, and columns of whole numbers if all are (pixels), unless
    they are called like an id.
    """
    columns = columns_of(X)
    if not columns:
        return
    is_float = [kind.startswith(_FLOATS) for _, kind in columns]
    others = [
        (name, kind)
        for (name, kind), fits in zip(columns, is_float, strict=True)
        if is_id(name) or not (fits or (kind.startswith(_WHOLE) and not any(is_float)))
    ]
    if not others:
        return
    lists = [column for column in others if column[1].startswith(_LISTS)]
    name, kind = (lists or others)[0]
    more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
    raise InvalidDtype(
        f"column {name!r}{more} of the table holds {kind}, which is no coordinate of a vector: "
        f"{_remedy(X, name, is_list=bool(lists) or (kind == 'object' and len(columns) == 1))}"
    )


def is_id(name: str) -> bool:
    """Whether a column of this name says which row it is, not where it lies."""
    return name.lower() in _IDS or name.lower().endswith("_id")


def _remedy(X: Any, name: str, *, is_list: bool) -> str:
    library = type(X).__module__.partition(".")[0]
    if is_list:
        taken = {"polars": ".to_list()", "pyarrow": ".to_pylist()"}.get(library, "")
        return f"give the vectors alone, as in np.stack(table[{name!r}]{taken})"
    dropped = {"polars": f"drop({name!r})", "pyarrow": f"drop_columns([{name!r}])"}
    drop = dropped.get(library, f"drop(columns=[{name!r}])")
    return (
        f"leave it out, as in table.{drop}, and give ids and metadata to a collection by its own "
        "arguments"
    )
