"""Logits of many rows for the kernel that packs their signs, with its order of columns.

A hidden layer makes two products of three, x [V | W] and relu(x V + c) O: one product of many
columns is faster than two, and its rows are few enough at a time to stay in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sghash.models.sgh.paper.encoder import Encoder
from sghash.validation import Vectors

if TYPE_CHECKING:
    from sghash.kernels.learning.projection import Projection

#: Hidden units that are held at a time, 1 MiB of them: the second-level cache keeps them.
CACHED_UNITS = 1 << 18
#: Fewer rows at a time would make slow products.
LEAST_ROWS = 64


class Arranged(NamedTuple):
    """An encoder with its columns as the packing kernel wants them; `first` is [V | W]."""

    first: Vectors
    hidden_bias: Vectors
    output: Projection

    @property
    def bias(self) -> Vectors:
        """The bias b, which the packing kernel adds."""
        return self.output.bias


def arranged(encoder: Encoder) -> Arranged:
    """Arrange a float32 encoder; the work of one call of `encode`."""
    from sghash.kernels.learning.projection import arrange

    linear, hidden = arrange(encoder.weights, encoder.bias), encoder.hidden
    if hidden is None:
        return Arranged(linear.weights, np.empty(0, dtype=np.float32), linear)
    first = np.concatenate([hidden.weights, linear.weights], axis=1)
    return Arranged(first, np.ascontiguousarray(hidden.bias), arrange(hidden.output, encoder.bias))


class Scores:
    """Scores of blocks of at most `block_rows` rows, in memory that is used again."""

    def __init__(self, encoder: Arranged) -> None:
        from sghash.kernels.learning.projection import BLOCK_ROWS

        self._encoder, self._n_units = encoder, encoder.hidden_bias.size
        self.block_rows = BLOCK_ROWS
        if self._n_units:
            self.block_rows = min(BLOCK_ROWS, max(LEAST_ROWS, CACHED_UNITS // self._n_units))
        self._first = _buffer(self.block_rows, encoder.first.shape[1])
        self._scores = _buffer(self.block_rows if self._n_units else 0, encoder.bias.size)

    def of(self, rows: Vectors) -> Vectors:
        """Logits without the bias b (n, 8 * n_bytes) of rows (n, d), until the next call."""
        first = self._first[: len(rows)]
        np.matmul(rows, self._encoder.first, out=first)
        if not self._n_units:
            return first
        from sghash.kernels.learning.training import hidden_units

        hidden_units(first, self._encoder.hidden_bias)
        scores = self._scores[: len(rows)]
        np.matmul(first[:, : self._n_units], self._encoder.output.weights, out=scores)
        scores += first[:, self._n_units :]
        return scores


def _buffer(*shape: int) -> Vectors:
    return np.empty(shape, dtype=np.float32)
