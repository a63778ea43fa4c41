"""Keys and metadata that come with the vectors of a job, out of columns of the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.incoming import check_keys
from sghash.collection.storage.columns import Column, columns_of, fit_kinds
from sghash.collection.storage.texts import Texts, key_table, texts_of
from sghash.data.columns import ParquetColumns
from sghash.errors import InvalidDtype, InvalidInput


def kinds_of(
    paths: Sequence[Path], keys: str | None, metadata: Sequence[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Kinds of the metadata of a job; all files must have the same columns of the same kinds.

    Whole numbers enter a column of numbers that the collection has already.
    """
    if keys is None and not metadata:
        return {}
    names = [*([] if keys is None else [keys]), *metadata]
    found: Mapping[str, str] | None = None
    for path in paths:
        own = ParquetColumns(path, names).kinds
        found = own if found is None else found
        for name in names:
            if own[name] != found[name]:
                raise InvalidInput(
                    f"the column {name!r} of {path} holds {own[name]} values, that of {paths[0]} "
                    f"{found[name]}: files of one job must have one schema, convert them first"
                )
    assert found is not None  # a job has files
    if keys is not None and found[keys] != "text":
        raise InvalidDtype(
            f"the column of keys {keys!r} holds {found[keys]} values: keys are text; take it as "
            "metadata, or convert it"
        )
    some = columns_of({name: [] for name in metadata}, 0)  # refuses names that cannot be
    return {name: _fitting(name, found[name], known.get(name)) for name in some}


def _fitting(name: str, kind: str, known: str | None) -> str:
    # Floats go where whole numbers are as long as they are whole: `fit_kinds` looks at each.
    if known is None or known == kind or {known, kind} == {"float", "int"}:
        return known or kind
    raise InvalidDtype(
        f"metadata column {name!r} holds {known} values in the collection, {kind} values in the "
        "files: keep one kind per column"
    )


class Fields(NamedTuple):
    """Keys and metadata of some rows."""

    keys: Texts | None
    columns: Mapping[str, Column]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All arrays, and the table that finds keys, by the names they have in a segment."""
        arrays: dict[str, NDArray[np.generic]] = {}
        if self.keys is not None:
            arrays["keys.offsets"], arrays["keys.blob"] = self.keys
            arrays["keys.hashes"], arrays["keys.rows"] = key_table(self.keys)
        for name, column in self.columns.items():
            arrays |= column.arrays(name)
        return arrays


def read_fields(
    file: str, start: int, stop: int, keys: str | None, kinds: Mapping[str, str]
) -> Fields:
    """Keys and metadata of some rows of a file, checked as `Collection.add` checks them."""
    if keys is None and not kinds:
        return Fields(None, {})
    names = [*([] if keys is None else [keys]), *kinds]
    values = ParquetColumns(file, names).read(start, stop)
    try:
        texts = None
        if keys is not None:
            strings = values[keys]
            if None in strings:
                row = start + strings.index(None)
                raise InvalidInput(f"row {row} has no key: every row needs one")
            check_keys(strings, stop - start)
            texts = texts_of(strings)
        some = columns_of({name: values[name] for name in kinds}, stop - start)
        return Fields(texts, fit_kinds(some, kinds))
    except InvalidInput as error:
        raise type(error)(f"{file}, rows {start} to {stop - 1}: {error}") from error
