"""Codes of SGH for search by tables: the decoder is one table of vectors per byte of the code.

A generative model's code need not be read bit by bit. Here p(x | h) = N(b + sum_j T_j[h_j], rho²)
with h_j the j-th byte: 256 vectors for the 256 values of eight bits that a linear decoder gives
eight. Such sums of codewords are known as additive quantization (Babenko and Lempitsky, "Additive
Quantization for Extreme Vector Compression", CVPR 2014); the start is a k-means of some principal
axes per byte, and training alternates the two halves of the description length: the code that
fits best, byte by byte, and the tables of least squared error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import InvalidDtype, InvalidInput
from sghash.models.base import BLOCK_ROWS, Callback, VectorModel
from sghash.models.capabilities import Capabilities, Length
from sghash.models.inputs import check_is_fitted, refuse_one_vector
from sghash.models.quantizers.byte_tables import (
    axes_of_tables,
    axes_worth_coding,
    centred_tables,
    code_finder,
    decode_tables,
    encoder_directions,
    fit_tables,
    guess_by_directions,
    guess_by_signs,
    improve_codes,
    in_small_blocks,
    mean_error,
    squared_lengths,
    start_codes,
)
from sghash.models.quantizers.scorer import ByteScorer
from sghash.models.sgh.training.scaling import unit_rows
from sghash.models.shared.blockwise import map_over_blocks, some_rows
from sghash.models.shared.feature_names import output_names
from sghash.models.shared.seeds import Seed, generator_of
from sghash.validation import METRICS, Codes, Vectors, check_choice, check_count

#: Rows that are trained on.
MAX_ROWS = 65_536
#: The normal equations of more bytes would not fit.
MAX_BYTES = 32
#: Training ends when a round lowers the error by a smaller share.
LEAST_GAIN = 0.015
#: Codes of more bytes are swept over so often at most when they are encoded.
LONG_BYTES, LONG_SWEEPS = 16, 2
#: From so many rows on it pays to look for the axes of the tables.
MANY_ROWS = 4096
#: Metrics whose scores have a term of the code alone, |x(h)|²: it takes the last byte.
WITH_TERM = ("l2", "cosine")


class GenerativeQuantizer(VectorModel):
    """Codes of `n_bytes` bytes whose decoder is a table of vectors per byte.

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
        At most so many alternations of better codes and better tables; fewer when one gains little.
    n_sweeps : int
        At most so often is each byte of a code chosen anew, given the others.
    callback : callable or None
        Receives a `Progress` after every round with its `error`.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    encoder_weights_, encoder_bias_ : (d, 8 n), (8 n,)
        Eight directions per byte, n bytes without the length's: a first guess of the byte is the
        table row nearest to x - bias_ along them. The encoder's bias is zero; where it is not, an
        earlier version learned the model, whose first codes are the signs of x @ weights + bias.
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
        mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        rows = rows - mean
        axes, variances = axes_worth_coding(rows, self._n_coded(), rng)
        turned = map_over_blocks(lambda block: block @ axes, rows)
        # What lies beyond the axes stays an error whatever the code.
        beyond = float(np.square(rows).sum(axis=1, dtype=np.float64).mean() - variances.sum())
        codes = start_codes(turned, variances, self._n_coded(), rng)
        tables, codes = self._learn(turned, codes, max(beyond, 0.0))
        tables, moved = centred_tables(tables, codes)
        self.tables_ = map_over_blocks(lambda block: block @ axes.T, tables)
        self.bias_ = mean + axes @ moved
        self.encoder_weights_ = axes @ encoder_directions(tables)
        self.encoder_bias_ = np.zeros(8 * self._n_coded(), dtype=np.float32)
        self._set_terms(codes)

    def _learn(self, rows: Vectors, codes: Codes, beyond: float) -> tuple[Vectors, Codes]:
        """Alternate codes and tables until a round gains little."""
        tables, before = fit_tables(rows, codes), np.inf
        for done in range(self.n_rounds):
            codes = improve_codes(rows, codes, tables=tables, n_sweeps=int(self.n_sweeps))
            tables = fit_tables(rows, codes)
            error = mean_error(rows, codes, tables) + beyond
            self._report(done + 1, self.n_rounds, error=error)
            if error > (1 - LEAST_GAIN) * before:
                break
            before = error
        # The last tables are those of codes as `encode` finds them, without the memory of rounds.
        tables, _ = centred_tables(tables, codes)
        guess = guess_by_directions(tables, encoder_directions(tables))
        sweeps = sweeps_of(int(self.n_bytes), int(self.n_sweeps))
        find = code_finder(tables, guess, sweeps, many=True)
        codes = in_small_blocks(find, rows)
        return fit_tables(rows, codes), codes

    def _set_terms(self, codes: Codes) -> None:
        lengths = squared_lengths(codes, self.tables_, self.bias_)
        self.term_low_ = float(lengths.min())
        self.term_step_ = float(np.ptp(lengths)) / 255 or 1.0

    def _n_coded(self) -> int:
        """Bytes that choose vectors; the other holds the length."""
        return int(self.n_bytes) - (self.metric in WITH_TERM)

    def _encode_sweeps(self) -> int:
        if self._guesses_signs():
            return int(self.n_sweeps)
        return sweeps_of(int(self.n_bytes), int(self.n_sweeps))

    def _guesses_signs(self) -> bool:
        """Whether an earlier version learned it: then its tables fit codes that began as signs."""
        return bool(self.encoder_bias_.any())

    def _ready(self, vectors: Vectors) -> Vectors:
        return unit_rows(vectors) if self.metric == "cosine" else vectors

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Codes:
        """Codes (n, n_bytes) uint8 of the rows of `X` (n, d): the bytes that fit best in turn."""
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        codes = np.empty((source.shape[0], int(self.n_bytes)), dtype=np.uint8)
        find = self._finder(len(codes))
        for first, block in blocks_of(source, 8 * BLOCK_ROWS):
            codes[first : first + len(block)] = in_small_blocks(find, self._checked(block))
        return codes

    def _finder(self, n_rows: int) -> Callable[[Vectors], Codes]:
        """Return what makes codes (n, n_bytes) of a small block of rows.

        Where tables lie in few axes, the bytes that choose vectors are found there, if rows are
        enough to pay for finding the axes.
        """
        weights, tables = self.encoder_weights_, self.tables_
        axes = axes_of_tables(tables) if n_rows >= MANY_ROWS else None
        if axes is not None:
            weights = axes.T @ weights
            tables = map_over_blocks(lambda block: block @ axes, tables)
        if self._guesses_signs():
            guess = guess_by_signs(weights, self.bias_ @ self.encoder_weights_ + self.encoder_bias_)
        else:
            guess = guess_by_directions(tables, weights)
        find = code_finder(tables, guess, self._encode_sweeps(), many=n_rows >= MANY_ROWS)

        def codes_of(block: Vectors) -> Codes:
            centred = self._ready(block) - self.bias_
            found = find(centred if axes is None else centred @ axes)
            if self.metric not in WITH_TERM:
                return found
            lengths = squared_lengths(found, self.tables_, self.bias_)
            steps = np.rint((lengths - self.term_low_) / self.term_step_).clip(0, 255)
            return np.hstack([found, steps.astype(np.uint8)[:, None]])

        return codes_of

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


def sweeps_of(n_bytes: int, n_sweeps: int) -> int:
    """Sweeps of `encode`: for long codes two at most, for more cost much and gain little."""
    return n_sweeps if n_bytes <= LONG_BYTES else min(n_sweeps, LONG_SWEEPS)
