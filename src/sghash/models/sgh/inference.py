"""What a fitted model can do: encode, decode, sample, and say how well it describes vectors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.bits import pack_bits
from sghash.blocks import VectorSource, blocks_of, read_rows
from sghash.errors import InvalidInput
from sghash.models.base import BinaryHasher
from sghash.models.inputs import check_is_fitted, translate_sklearn_errors, validate_data
from sghash.models.sgh.paper.encoder import draw_bits, sigmoid
from sghash.models.sgh.paper.generative import Floats, code_values
from sghash.models.sgh.paper.gradients import encoder_logits, fitted_encoder, gaussian_decoder
from sghash.models.sgh.paper.objective import DescriptionLength, description_length
from sghash.models.sgh.paper.posterior import sharpen
from sghash.models.sgh.scores import Arranged, Scores, arranged
from sghash.models.sgh.training.scaling import unit_rows
from sghash.models.shared.blockwise import single_threaded_blas
from sghash.models.shared.scorers import LinearScorer
from sghash.models.shared.seeds import generator_of
from sghash.validation import Codes, Vectors, available_cores, n_bytes_of

MEASURE_ROWS = 4096
# Fewer rows than this are not worth a second thread.
ALONE_ROWS = 8192
# To arrange the weights for the packing kernel would take longer than to project so few rows.
FEW_ROWS = 16
# A source is read this many rows at a time.
READ_ROWS = 16384


class GenerativeHasher(BinaryHasher):
    """Abstract: an encoder q(h | x) and a Gaussian decoder p(x | h), however learned.

    The encoder is linear, or has a hidden layer beside its linear part.
    """

    coding: str
    hidden: int
    metric: str
    encoder_weights_: Vectors
    encoder_bias_: Vectors
    decoder_weights_: Vectors
    decoder_bias_: Vectors
    noise_variance_: float
    prior_logits_: Vectors
    hidden_weights_: Vectors
    hidden_bias_: Vectors
    hidden_output_: Vectors

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Codes:
        """Hash each row of `X` (n, d) to a packed code (n, ceil(n_bits / 8)) uint8.

        `sweeps` > 0 improves the encoder's codes by so many rounds of coordinate descent on the
        posterior p(h | x): slower, nearer to the vector when decoded. For codes to be stored;
        queries are better not encoded at all (`query_tables`).
        """
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        if sweeps:
            return self._over_rows(source, partial(self._sharpen, n_sweeps=int(sweeps)))
        if source.shape[0] <= FEW_ROWS:
            return self._encode_few(read_rows(source, 0, source.shape[0]))
        encoder = arranged(fitted_encoder(self, np.float32))
        return self._over_rows(source, partial(self._pack, encoder=encoder))

    def _over_rows(
        self, source: VectorSource | NDArray[Any], work: Callable[[NDArray[Any], Codes], None]
    ) -> Codes:
        """Let `work` fill the codes of all rows, on all cores where there are many rows."""
        n = source.shape[0]
        codes = np.empty((n, n_bytes_of(self.n_bits)), dtype=np.uint8)
        if n <= ALONE_ROWS:
            work(read_rows(source, 0, n), codes)
            return codes
        # Only arrays may be read by several threads at once.
        n_read = n if isinstance(source, np.ndarray) else READ_ROWS
        n_threads = available_cores()
        with single_threaded_blas(), ThreadPoolExecutor(n_threads) as pool:
            for first, part in blocks_of(source, n_read):
                edges = np.linspace(0, len(part), n_threads + 1).astype(int)
                shares = [slice(*edge) for edge in pairwise(edges.tolist())]
                own = codes[first : first + len(part)]
                waiting = [pool.submit(work, part[share], own[share]) for share in shares]
                for share in waiting:
                    share.result()
        return codes

    def _sharpen(self, vectors: NDArray[Any], codes: Codes, *, n_sweeps: int) -> None:
        """Fill `codes` (n, n_bytes) by coordinate descent from unchecked vectors (n, d)."""
        decoder = gaussian_decoder(self)
        for first, block in blocks_of(vectors, MEASURE_ROWS):
            rows = self._ready(self._checked(block))
            bits = sharpen(
                rows,
                self._bits(rows),
                decoder,
                self.prior_logits_,
                coding=self.coding,
                n_sweeps=n_sweeps,
            )
            codes[first : first + len(block)] = pack_bits(bits)

    def _encode_few(self, vectors: NDArray[Any]) -> Codes:
        """Codes of a few unchecked vectors (n, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._ready(np.ascontiguousarray(vectors, dtype=np.float32))
            scores = fitted_encoder(self, np.float32).logits(rows)
        if not np.isfinite(scores).all():
            self._refuse(vectors)
        return np.packbits(scores > 0, axis=1)

    def _refuse(self, vectors: NDArray[Any]) -> NoReturn:
        """Say what is wrong with vectors whose logits are not finite."""
        self._checked(vectors)
        raise InvalidInput(
            "X holds values so large that their projection is infinite in float32: "
            "rescale them as for fit"
        )

    def _pack(self, vectors: NDArray[Any], codes: Codes, *, encoder: Arranged) -> None:
        """Fill `codes` (n, n_bytes) by the signs of the logits of unchecked vectors (n, d)."""
        from sghash.kernels.learning.projection import pack_signs

        scores = Scores(encoder)
        for first, block in blocks_of(vectors, scores.block_rows):
            with np.errstate(over="ignore", invalid="ignore"):
                rows = self._ready(np.ascontiguousarray(block, dtype=np.float32))
                logits = scores.of(rows)
            if not pack_signs(logits, encoder.bias, codes[first : first + len(block)]):
                self._refuse(block)

    def _bits(self, vectors: Vectors) -> NDArray[np.bool_]:
        return fitted_encoder(self, np.float32).logits(vectors) > 0

    def _decode(self, bits: NDArray[np.bool_]) -> Vectors:
        return code_values(bits, self.coding) @ self.decoder_weights_ + self.decoder_bias_

    def bit_probabilities(self, X: ArrayLike) -> Vectors:
        """Probability (n, n_bits) float32 that each bit of each row of `X` is set."""
        logits = encoder_logits(self, self.checked_rows(X))
        return sigmoid(logits).astype(np.float32)

    def sample_codes(
        self, X: ArrayLike, random_state: int | np.random.Generator | None = None
    ) -> Codes:
        """Draw a packed code for each row of `X` from q(h | x); `encode` takes the likeliest."""
        probabilities = sigmoid(encoder_logits(self, self.checked_rows(X)))
        return pack_bits(draw_bits(probabilities, generator_of(random_state)))

    def sample(self, n: int = 1, random_state: int | np.random.Generator | None = None) -> Vectors:
        """Draw `n` codes from the prior and decode them to vectors (n, d) float32."""
        check_is_fitted(self)
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise InvalidInput(f"n must be a whole number of at least 1, got {n!r}")
        prior = np.broadcast_to(sigmoid(self.prior_logits_), (n, self.n_bits))
        return self._decode(draw_bits(prior, generator_of(random_state)))

    def description_length(self, X: ArrayLike) -> DescriptionLength:
        """Bits per vector for each row of `X`: total, and its parts for code and residual.

        Always at weight 1, whatever weight trained the model. The residual part comes from a
        density and may be negative; see `DescriptionLength`.
        """
        vectors = self.checked_rows(X)
        parts = [description_length(self, block) for _, block in blocks_of(vectors, MEASURE_ROWS)]
        return DescriptionLength(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def reconstruction_error(self, X: ArrayLike, *, sweeps: int = 0) -> float:
        """Mean over the rows of `X` of |x - decode(encode(x))|², x of unit length for "cosine"."""
        vectors = self.checked_rows(X)
        total = 0.0
        for _, block in blocks_of(vectors, MEASURE_ROWS):
            back = self.decode(self.encode(block, sweeps=sweeps))
            total += float(np.square(block - back, dtype=np.float64).sum())
        return total / len(vectors)

    def scorer(self, metric: str | None = None) -> LinearScorer:
        """Return what makes query tables in one metric; None is the model's own."""
        chosen, weights = self._metric(metric), self.decoder_weights_.astype(np.float64)
        origin = self.decoder_bias_.astype(np.float64)
        if self.coding == "signed":
            origin, weights = origin - weights.sum(axis=0), 2 * weights
        return LinearScorer(origin, weights, chosen)

    def checked_rows(self, X: ArrayLike) -> Floats:
        """Checked float32 vectors (n, d), of unit length if the metric is "cosine"."""
        check_is_fitted(self)
        with translate_sklearn_errors(), np.errstate(over="ignore"):
            vectors = validate_data(self, X, reset=False, dtype=np.float32, order="C")
        return self._ready(vectors)

    def _ready(self, vectors: Vectors) -> Vectors:
        return unit_rows(vectors) if self.metric == "cosine" else vectors
