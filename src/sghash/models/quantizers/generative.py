"""Codes of SGH for search by tables: the decoder is one table of vectors per byte of the code.

A generative model's code need not be read bit by bit. Here p(x | h) = N(b + sum_j T_j[h_j], rho²)
with h_j the j-th byte: 256 vectors for the 256 values of eight bits that a linear decoder gives
eight. Such sums of codewords are known as additive quantization (Babenko and Lempitsky, "Additive
Quantization for Extreme Vector Compression", CVPR 2014); the start is SGH's encoder and linear
decoder, and training alternates the two halves of the description length: the code that fits
best, byte by byte, and the tables of least squared error.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import InvalidDtype, InvalidInput
from sghash.models.base import BLOCK_ROWS, Callback, VectorModel
from sghash.models.capabilities import Capabilities, Length
from sghash.models.inputs import check_is_fitted, refuse_one_vector
from sghash.models.quantizers.scorer import ByteScorer
from sghash.models.sgh.estimator import SGH
from sghash.models.sgh.training.scaling import unit_rows
from sghash.models.shared.blockwise import map_over_blocks, some_rows
from sghash.models.shared.feature_names import output_names
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import METRICS, Codes, Vectors, check_choice, check_count

#: Rows that are trained on.
MAX_ROWS = 65_536
#: Least squares draws tables to zero as if each value had been seen so often with nothing left.
RIDGE = 4.0
#: The normal equations of more bytes would not fit.
MAX_BYTES = 32
#: Rows that are improved at a time.
DESCENT_ROWS = 2048
#: Steps of SGH for the start.
START_STEPS = 1500
#: Metrics whose scores have a term of the code alone, |x(h)|²: it takes the last byte.
WITH_TERM = ("l2", "cosine")


class GenerativeQuantizer(VectorModel):
    """Codes of `n_bytes` bytes whose decoder is a table of vectors per byte, learned from SGH.

    Not a hashing model: codes are compared through tables (`query_tables` and `TableIndex`), not
    by Hamming distance. For "l2" and "cosine" the last byte of a code holds the squared length of
    the vector that it stands for, in 256 even steps: nothing else is stored beside the code.

    Parameters
    ----------
    n_bytes : int
        Bytes of a code, 2 to 32.
    metric : {"l2", "ip", "cosine"}
        What `query_tables` score; "cosine" brings all vectors to unit length first.
    n_rounds : int
        Alternations of better codes and better tables.
    n_sweeps : int
        At most so often is each byte of a code chosen anew, given the others.
    callback : callable or None
        Receives a `Progress` after every round with its `error`.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    encoder_weights_, encoder_bias_ : (d, 8 n), (8 n,)
        First codes: a bit is set where x @ weights + bias > 0; n bytes without the length's.
    tables_, bias_ : (n, 256, d), (d,)
        A code h stands for bias + sum of tables[j, h[j]].
    term_low_, term_step_ : float
        Value 0 of the last byte as a squared length, and the step between values.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        "bytes", Length("n_bytes", 8, least=2, most=MAX_BYTES), decodes=True, tables=True
    )
    most_rows: ClassVar[int | None] = MAX_ROWS
    learned_names: ClassVar[tuple[str, ...]] = (
        "encoder_weights_",
        "encoder_bias_",
        "tables_",
        "bias_",
        "term_low_",
        "term_step_",
    )

    def __init__(
        self,
        n_bytes: int = 8,
        *,
        metric: str = "l2",
        n_rounds: int = 6,
        n_sweeps: int = 4,
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_bytes, self.metric = n_bytes, metric
        self.n_rounds, self.n_sweeps = n_rounds, n_sweeps
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_choice(self.metric, METRICS, name="metric")
        for name in ("n_bytes", "n_rounds", "n_sweeps"):
            check_count(getattr(self, name), name=name)
        if not 2 <= self.n_bytes <= MAX_BYTES:
            raise InvalidInput(f"n_bytes must lie between 2 and {MAX_BYTES}, got {self.n_bytes}")
        rng = generator_of(self.random_state)
        rows = self._ready(some_rows(vectors, MAX_ROWS, rng))
        start = SGH(
            n_bits=8 * self._n_coded(),
            goal="reconstruction",
            gradient="exact",
            n_steps=START_STEPS,
            random_state=int(rng.integers(1 << 31)),
        ).fit(rows)
        self.encoder_weights_, self.encoder_bias_ = start.encoder_weights_, start.encoder_bias_
        self.bias_ = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        centred = rows - self.bias_
        codes = start.encode(rows, sweeps=self.n_sweeps)
        self.tables_ = fit_tables(centred, codes)
        for done in range(self.n_rounds):
            codes = self._improved(centred, codes)
            self.tables_ = fit_tables(centred, codes)
            error = float(
                np.square(centred - decode_tables(codes, self.tables_)).sum(axis=1).mean()
            )
            self._report(done + 1, self.n_rounds, error=error)
        self._set_terms(self._improved(centred, codes))

    def _set_terms(self, codes: Codes) -> None:
        lengths = self._lengths(codes)
        self.term_low_ = float(lengths.min())
        self.term_step_ = float(np.ptp(lengths)) / 255 or 1.0

    def _n_coded(self) -> int:
        """Bytes that choose vectors; the other holds the length."""
        return int(self.n_bytes) - (self.metric in WITH_TERM)

    def _ready(self, vectors: Vectors) -> Vectors:
        return unit_rows(vectors) if self.metric == "cosine" else vectors

    def _improved(self, centred: Vectors, codes: Codes) -> Codes:
        flat = self.tables_.reshape(-1, self.tables_.shape[2])
        improve = partial(
            improve_codes, tables=self.tables_, cross=flat @ flat.T, n_sweeps=int(self.n_sweeps)
        )
        return map_over_blocks(improve, centred, codes)

    def _lengths(self, codes: Codes) -> Vectors:
        """Squared lengths (n,) of the vectors that the choosing bytes stand for."""
        parts = [
            np.square(decode_tables(block, self.tables_) + self.bias_).sum(axis=1)
            for _, block in blocks_of(codes, BLOCK_ROWS)
        ]
        return np.concatenate(parts)

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Codes:
        """Codes (n, n_bytes) uint8 of the rows of `X` (n, d): the bytes that fit best in turn."""
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        codes = np.empty((source.shape[0], int(self.n_bytes)), dtype=np.uint8)
        for first, block in blocks_of(source, 8 * BLOCK_ROWS):
            rows = self._ready(self._checked(block))
            bits = rows @ self.encoder_weights_ + self.encoder_bias_ > 0
            found = self._improved(rows - self.bias_, np.packbits(bits, axis=1))
            here = codes[first : first + len(block)]
            here[:, : found.shape[1]] = found
            if self.metric in WITH_TERM:
                steps = (self._lengths(found) - self.term_low_) / self.term_step_
                here[:, -1] = np.rint(steps).clip(0, 255)
        return codes

    def decode(self, codes: ArrayLike) -> Vectors:
        """Vectors (n, d) float32 that codes (n, n_bytes) stand for."""
        own = self._checked_codes(codes)[:, : self._n_coded()]
        return decode_tables(own, self.tables_) + self.bias_

    def inverse_transform(self, X: ArrayLike) -> Vectors:
        """Vectors that codes stand for, as `decode` does."""
        return self.decode(X)

    def transform(self, X: ArrayLike | VectorSource) -> Codes:
        """Return the codes, as `encode` does: one number per byte."""
        refuse_one_vector(X)
        return self.encode(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`."""
        return output_names(self, input_features, "generativequantizer", int(self.n_bytes))

    def scorer(self, metric: str | None = None) -> ByteScorer:
        """Return what makes query tables; None is the model's own metric.

        A model of "l2" gives those of "ip" too; all other metrics need a model of their own.
        """
        chosen = self._metric(metric)
        if chosen != self.metric and (self.metric, chosen) != ("l2", "ip"):
            raise InvalidInput(
                f"this GenerativeQuantizer was fitted for {self.metric!r} and cannot score "
                f"{chosen!r}: fit one with metric={chosen!r}"
            )
        return ByteScorer(int(self.n_bytes), partial(self._byte_tables, metric=chosen))

    def _byte_tables(self, queries: Vectors, metric: str) -> tuple[Vectors, Vectors]:
        """What each value of each byte adds to a distance, and what each query adds.

        For "cosine" the distance is half of the squared one, which is 1 - cosine of unit vectors.
        """
        rows = self._ready(queries)
        factor = np.float32(-2 if metric == "l2" else -1)
        tables = np.zeros((len(rows), int(self.n_bytes), 256), dtype=np.float32)
        for part, table in enumerate(self.tables_):
            tables[:, part] = rows @ (table.T * factor)
        offsets = factor * (rows @ self.bias_)
        if metric in WITH_TERM:
            share = np.float32(1 if metric == "l2" else 0.5)
            tables[:, -1] = share * (self.term_low_ + self.term_step_ * np.arange(256))
            offsets = offsets + share * np.square(rows).sum(axis=1)
        return tables, offsets

    def _checked_codes(self, codes: ArrayLike) -> Codes:
        check_is_fitted(self)
        array = np.asarray(codes)
        if array.dtype != np.uint8:
            raise InvalidDtype(f"codes must be uint8, got {array.dtype}: give what encode returned")
        if array.ndim != 2 or array.shape[1] != self.n_bytes:
            raise InvalidInput(
                f"codes must have the shape (n, {self.n_bytes}), got {array.shape}: "
                "give what encode returned"
            )
        return array


def decode_tables(codes: Codes, tables: Vectors) -> Vectors:
    """Sums (n, d) of the table rows that codes (n, n_bytes) name."""
    total = tables[0][codes[:, 0]]
    for part in range(1, len(tables)):
        total += tables[part][codes[:, part]]
    return total


def improve_codes(
    vectors: Vectors, codes: Codes, *, tables: Vectors, cross: Vectors, n_sweeps: int
) -> Codes:
    """Choose every byte anew, given the others, until nothing changes or `n_sweeps` are over.

    `cross` are the inner products of all table rows. No row's squared error ever rises.
    """
    from sghash.kernels.learning.descent import descend_bytes

    better = codes.copy()
    flat = tables.reshape(-1, tables.shape[2])
    for first, block in blocks_of(vectors, DESCENT_ROWS):
        dots = np.asarray(block) @ flat.T
        descend_bytes(dots, cross, better[first : first + len(block)], n_sweeps)
    return better


def fit_tables(vectors: Vectors, codes: Codes) -> Vectors:
    """Tables (n_bytes, 256, d) of least squared error for vectors (n, d) with given codes."""
    n_parts, width = codes.shape[1], vectors.shape[1]
    numbers = codes.astype(np.int64)
    gram = np.empty((n_parts, 256, n_parts, 256))
    sums = np.zeros((n_parts, 256, width))
    for i in range(n_parts):
        for j in range(i, n_parts):
            pairs = np.bincount(numbers[:, i] * 256 + numbers[:, j], minlength=1 << 16)
            gram[i, :, j, :] = pairs.reshape(256, 256)
            gram[j, :, i, :] = gram[i, :, j, :].T
        order = np.argsort(codes[:, i], kind="stable")
        values, starts = np.unique(codes[order, i], return_index=True)
        sums[i, values] = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64)
    square = gram.reshape(256 * n_parts, 256 * n_parts)
    square[np.diag_indices_from(square)] += RIDGE
    solved = np.linalg.solve(square, sums.reshape(256 * n_parts, width))
    return solved.reshape(n_parts, 256, width).astype(np.float32)
