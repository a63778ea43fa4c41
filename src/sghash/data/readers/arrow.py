"""Arrow's own files: Feather (version 2), `.arrow` and `.ipc`, as a file or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sghash.data.readers.columnar import ColumnarSource
from sghash.data.sources import RowSource, bad_file
from sghash.optional import require

MAGIC = b"ARROW1"
_FEATHER_1 = b"FEA1"
# How a stream begins: the mark of a message.
_STREAM = b"\xff\xff\xff\xff"


def open_source(path: Path, *, key: str | None) -> RowSource:
    """Open the columns `key`; without a key, those that are clear."""
    return ArrowSource(path, key)


class ArrowSource(ColumnarSource):
    """Record batches of a file, each read when it is needed; those of a stream in order."""

    format: ClassVar[str] = "an Arrow file"

    def _open(self) -> Any:
        with open(self.path, "rb") as stream:
            head = stream.read(len(MAGIC))
        if head.startswith(_FEATHER_1):
            expected = "Feather version 2 (write the table again with a present pyarrow)"
            raise bad_file(self.path, 0, expected=expected, found="version 1")
        if head != MAGIC and not head.startswith(_STREAM):
            raise bad_file(self.path, 0, expected=f"the bytes {MAGIC!r}", found=repr(head))
        self.is_stream = head != MAGIC
        with self._source() as source, self._reader(source) as reader:
            counts = [len(batch) for batch in self._all(reader, 0)]
            schema = reader.schema
        self.limits = np.cumsum([0, *(counts if not self.is_stream else [sum(counts)])])
        return schema

    def _batches(self, group: int, n_rows: int) -> Iterator[Any]:
        with self._source() as source, self._reader(source) as reader:
            for batch in self._all(reader, group):
                batch.validate(full=True)
                yield batch.select(list(self.chosen.names))

    def _all(self, reader: Any, group: int) -> Iterator[Any]:
        if self.is_stream:
            yield from reader
        else:
            yield from map(reader.get_batch, range(group, reader.num_record_batches))

    def _source(self) -> Any:
        # Not a memory map: a file that shrinks meanwhile would end the process.
        return require("pyarrow", extra="parquet").OSFile(str(self.path), "rb")

    def _reader(self, source: Any) -> Any:
        ipc = require("pyarrow.ipc", extra="parquet")
        return ipc.open_stream(source) if self.is_stream else ipc.open_file(source)
