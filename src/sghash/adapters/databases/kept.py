"""Vectors that a database keeps beside codes: 16 bits a number, to order a shortlist by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.errors import InvalidInput
from sghash.validation import check_vectors

_LARGEST = 65504.0


class Kept(NamedTuple):
    """Columns of the vectors that a table keeps, 0 where it keeps none, and how they compare."""

    width: int
    metric: str

    @property
    def column(self) -> str:
        """The column of the table, behind the others."""
        return f", vector halfvec({self.width}) NOT NULL" if self.width else ""

    def halves(self, vectors: ArrayLike | None, n_rows: int) -> NDArray[np.float16]:
        """Vectors (n_rows, width) as the table keeps them, or compares them."""
        if vectors is None:
            raise InvalidInput("the table keeps vectors: give them with the codes")
        array = check_vectors(vectors)
        if array.shape != (n_rows, self.width):
            raise InvalidInput(
                f"vectors have the shape {array.shape}, the table needs {(n_rows, self.width)}"
            )
        if array.size and float(np.abs(array).max()) > _LARGEST:
            raise InvalidInput("vectors have numbers beyond 65504, which 16 bits cannot keep")
        return array.astype(np.float16)
