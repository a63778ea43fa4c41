"""Product quantization, plain and optimized: what equally small codes reach without Hamming.

Jégou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search", TPAMI 33(1), 2011.
Ge, He, Ke and Sun, "Optimized Product Quantization", CVPR 2013 (TPAMI 36(4), 2014).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sghash.blocks import VectorSource, blocks_of
from sghash.errors import InvalidDtype, InvalidInput
from sghash.models.base import BLOCK_ROWS, Callback, VectorModel
from sghash.models.capabilities import Capabilities, Length
from sghash.models.inputs import check_is_fitted, refuse_one_vector
from sghash.models.quantizers.parts import allocated_axes, first_centroids, part_sums
from sghash.models.quantizers.scorer import ByteScorer
from sghash.models.shared.blockwise import map_over_blocks, single_threaded_blas
from sghash.models.shared.centroids import assign, centering_point, k_means, means_of, nearest
from sghash.models.shared.feature_names import output_names
from sghash.models.shared.scorers import unit_queries
from sghash.models.shared.seeds import Seed, generator_of
from sghash.optional import require
from sghash.validation import MAX_BITS, Codes, Vectors, check_choice, check_count, check_flag

# As FAISS does by default: more rows than this per centroid hardly change it.
_ROWS_PER_CENTROID = 256
_STEPS_TO_COMPARE = 4


class _Origin(NamedTuple):
    """A point (d,) far from zero, and the same point after the rotation."""

    point: Vectors
    turned: NDArray[np.float64]


class ProductQuantizer(VectorModel):
    """Each of `n_parts` parts of a vector as the number of its nearest centroid.

    Not a hashing model: codes are compared through tables of distances (`query_tables` and
    `TableIndex`), not by Hamming distance. A code takes `n_parts` bytes, so 8 parts compare with
    binary codes of 64 bits.

    With `rotate` it is OPQ: the vectors are first turned by a learned rotation, which alternates
    one k-means step with the best rotation for its reconstructions. It starts either from the
    paper's parametric solution (principal axes shared out with balanced products of variances)
    or from no rotation at all, whichever has the lower error after a few steps of k-means: on
    descriptors whose order of columns means something, such as SIFT, the latter ends far lower.

    Deviations: at most 256 random rows per centroid are used for training; where the width is no
    multiple of `n_parts`, parts differ by one column (and are empty beyond the width);
    `n_centroids` shrinks to the number of rows; an empty cluster takes half of the largest one.

    Parameters
    ----------
    n_parts : int
        Bytes of a code.
    n_centroids : int
        Centroids of a part, at most 256.
    rotate : bool
        Learn a rotation (OPQ).
    n_iterations : int
        Iterations of k-means.
    n_rotations : int
        Alternations of OPQ before k-means.
    engine : "numpy" or "faiss"
        Train here, or by FAISS (the extra `faiss`; needs a width that is a multiple of `n_parts`,
        and 16 or 256 centroids). Encoding and tables are the same.
    callback : callable or None
        Receives a `Progress` after every part, and after every rotation with its `error`.
    random_state : int, Generator or None
        Seed of rows, first centroids, and FAISS.

    Attributes
    ----------
    rotation_ : (d, d) or (0, 0)
        Vectors are multiplied by it before they are cut; empty without `rotate`.
    part_widths_ : (n_parts,)
        Columns of each part.
    centroids_ : (n_parts, n_centroids, largest width)
        Centroids, padded with zeros on the right.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        "bytes", Length("n_parts", 8, most=MAX_BITS // 8), decodes=True, tables=True
    )
    learned_names: ClassVar[tuple[str, ...]] = ("rotation_", "part_widths_", "centroids_")

    def __init__(
        self,
        n_parts: int = 8,
        *,
        n_centroids: int = 256,
        rotate: bool = False,
        n_iterations: int = 25,
        n_rotations: int = 50,
        engine: str = "numpy",
        callback: Callback | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_parts, self.n_centroids, self.rotate = n_parts, n_centroids, rotate
        self.n_iterations, self.n_rotations, self.engine = n_iterations, n_rotations, engine
        self.callback, self.random_state = callback, random_state

    def _fit(self, vectors: Vectors, y: ArrayLike | None) -> None:
        check_choice(self.engine, ("numpy", "faiss"), name="engine")
        check_flag(self.rotate, name="rotate")
        for name in ("n_parts", "n_centroids"):
            check_count(getattr(self, name), name=name)
        for name in ("n_iterations", "n_rotations"):
            check_count(getattr(self, name), name=name, least=0)
        if self.n_centroids > 256:
            raise InvalidInput(f"n_centroids must lie between 1 and 256, got {self.n_centroids}")
        rng = generator_of(self.random_state)
        n_rows = min(len(vectors), _ROWS_PER_CENTROID * self.n_centroids)
        rows = vectors[np.sort(rng.choice(len(vectors), n_rows, replace=False))]
        width = vectors.shape[1]
        parts = np.array_split(np.arange(width), self.n_parts)
        self.part_widths_ = np.asarray([len(part) for part in parts], dtype=np.int32)
        self.rotation_ = np.zeros((0, 0), dtype=np.float32)
        # Learned around zero: beside a large mean, float32 would leave little of what differs, and
        # the rotation would follow the mean.
        mean = rows.mean(axis=0, dtype=np.float64)
        rows = (rows - mean).astype(np.float32)
        learn = self._train_by_faiss if self.engine == "faiss" else self._train
        self._set_centroids(learn(rows, rng), self._rotated(mean))

    def _train(self, rows: Vectors, rng: Generator) -> list[Vectors]:
        """Set the rotation, and return the centroids of every part, for rows of mean zero."""
        width = rows.shape[1]
        if self.rotate:
            starts = [np.eye(width, dtype=np.float32), allocated_axes(rows, self.part_widths_)]
            self.rotation_ = min(starts, key=lambda start: self._error_from(rows, start))
        turned = self._rotated(rows)
        centroids = first_centroids(turned, self.part_widths_, self.n_centroids, rng)
        if self.rotate:
            centroids = self._learn_rotation(rows, centroids, rng)
        return self._improve(self._rotated(rows), centroids, self.n_iterations, rng)

    def _error_from(self, rows: Vectors, rotation: Vectors) -> float:
        """Mean squared error that a few steps of k-means reach without changing the rotation."""
        rng = generator_of(0)
        turned = rows @ rotation
        centroids = first_centroids(turned, self.part_widths_, self.n_centroids, rng)
        improved = self._improve(turned, centroids, _STEPS_TO_COMPARE, rng)
        parts = zip(self._cut(turned), improved, strict=True)
        return sum(assign(columns, centres).error for columns, centres in parts)

    def _improve(
        self, rows: Vectors, centroids: list[Vectors], n_iterations: int, rng: Generator
    ) -> list[Vectors]:
        improved = []
        for part, (columns, old) in enumerate(zip(self._cut(rows), centroids, strict=True)):
            improved.append(k_means(columns, old, n_iterations, rng))
            if n_iterations == self.n_iterations:
                self._report(part + 1, self.n_parts)
        return improved

    def _learn_rotation(
        self, rows: Vectors, centroids: list[Vectors], rng: Generator
    ) -> list[Vectors]:
        """Alternate one k-means step with the rotation nearest to its reconstructions."""
        edges = np.cumsum(self.part_widths_)
        for step in range(self.n_rotations):
            sizes, sums, error = part_sums(rows, self.rotation_, centroids)
            cross = np.zeros(self.rotation_.shape)
            for part, (stop, width) in enumerate(zip(edges, self.part_widths_, strict=True)):
                columns = slice(stop - width, stop)
                turned = sums[part] @ self.rotation_[:, columns]
                centroids[part] = means_of(sizes[part], turned, centroids[part], rng)
                # The rows of a cluster share their reconstruction, so their sum is enough.
                cross[:, columns] = sums[part].T @ centroids[part]
            with single_threaded_blas():
                left, _, right = np.linalg.svd(cross)
            self.rotation_ = (left @ right).astype(np.float32)
            self._report(step + 1, self.n_rotations, error=error)
        return centroids

    def _train_by_faiss(self, rows: Vectors, rng: Generator) -> list[Vectors]:
        faiss = require("faiss", extra="faiss")
        width, n_bits = rows.shape[1], int(self.n_centroids).bit_length() - 1
        if width % self.n_parts or 1 << n_bits != self.n_centroids:
            raise InvalidInput(
                f"FAISS needs a width that n_parts divides and a power of two of centroids, got "
                f"{width}, {self.n_parts} and {self.n_centroids}: use engine='numpy'"
            )
        if self.rotate:
            transform = faiss.OPQMatrix(width, self.n_parts)
            transform.niter = self.n_rotations
            transform.train(rows)
            self.rotation_ = faiss.vector_to_array(transform.A).reshape(width, width).T.copy()
        quantizer = faiss.ProductQuantizer(width, self.n_parts, n_bits)
        quantizer.cp.niter, quantizer.cp.seed = self.n_iterations, int(rng.integers(2**31 - 1))
        quantizer.train(np.ascontiguousarray(self._rotated(rows)))
        shape = (self.n_parts, self.n_centroids, width // self.n_parts)
        return list(faiss.vector_to_array(quantizer.centroids).reshape(shape))

    def encode(self, X: ArrayLike | VectorSource, *, sweeps: int = 0) -> Codes:
        """Numbers (n, n_parts) uint8 of the nearest centroids of each row of `X` (n, d)."""
        self._check_sweeps(sweeps)
        source = self._vectors_to_read(X)
        codes = np.empty((source.shape[0], self.n_parts), dtype=np.uint8)
        for first, block in blocks_of(source, BLOCK_ROWS):
            rows = self._checked(block)
            numbers = map_over_blocks(lambda part: self._numbers(self._turned(part)), rows)
            codes[first : first + len(block)] = numbers
        return codes

    def decode(self, codes: ArrayLike) -> Vectors:
        """Reconstruct vectors (n, d) float32 from codes (n, n_parts) uint8."""
        check_is_fitted(self)
        rebuilt = self._rebuilt(self._checked_codes(codes))
        if (origin := self._origin()) is not None:
            rebuilt = (rebuilt - origin.turned).astype(np.float32)
            return rebuilt @ self.rotation_.T + origin.point
        return rebuilt @ self.rotation_.T if self.rotation_.size else rebuilt

    def scorer(self, metric: str | None = None) -> ByteScorer:
        """Return what makes query tables in one metric; None is "l2"."""
        chosen = self._metric(metric)

        def make(queries: Vectors) -> tuple[Vectors, Vectors]:
            rows = unit_queries(queries) if chosen == "cosine" else queries
            tables = self._part_tables(rows, chosen)
            offsets = np.full(len(rows), 1.0 if chosen == "cosine" else 0.0, dtype=np.float32)
            return tables, offsets

        return ByteScorer(int(self.n_parts), make)

    def _part_tables(self, queries: Vectors, metric: str) -> Vectors:
        """What each centroid of each part (n_queries, n_parts, n_centroids) adds to a distance."""
        turned = self._turned(queries)
        tables = np.empty((len(turned), *self.centroids_.shape[:2]), dtype=np.float32)
        for part, columns in enumerate(self._cut(turned)):
            centroids = self.centroids_[part, :, : columns.shape[1]]
            if metric == "l2":
                gaps = columns[:, None, :] - centroids[None]
                tables[:, part] = np.einsum("ijk,ijk->ij", gaps, gaps)
            else:
                tables[:, part] = -(columns @ centroids.T)
        return tables

    def transform(self, X: ArrayLike) -> Codes:
        """Numbers of the nearest centroids; the same as `encode`."""
        refuse_one_vector(X)
        return self.encode(X)

    def inverse_transform(self, X: ArrayLike) -> Vectors:
        """Reconstruct vectors; the same as `decode`."""
        return self.decode(X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "part0", "part1", ..."""
        return output_names(self, input_features, "part", int(self.n_parts))

    def _rotated(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows @ self.rotation_ if self.rotation_.size else rows

    def _turned(self, rows: Vectors) -> Vectors:
        """Rows in the coordinates of the centroids, without loss beside a large mean."""
        if (origin := self._origin()) is not None:
            return (self._rotated(rows - origin.point) + origin.turned).astype(np.float32)
        return self._rotated(rows)

    def _origin(self) -> _Origin | None:
        """The point to turn vectors about: near the mean of all centroids, or None for zero."""
        if not self.rotation_.size:
            return None
        parts = zip(self.centroids_, self.part_widths_, strict=True)
        turned = centering_point(np.hstack([values[:, :width] for values, width in parts]))
        if turned is None:
            return None
        point = self.rotation_ @ turned
        return _Origin(point, point.astype(np.float64) @ self.rotation_.astype(np.float64))

    def _cut(self, rows: Vectors) -> list[Vectors]:
        parts = np.split(rows, np.cumsum(self.part_widths_)[:-1], axis=1)
        return [np.ascontiguousarray(part) for part in parts]

    def _set_centroids(self, centroids: list[Vectors], mean: NDArray[np.float64]) -> None:
        """Keep centroids, moved by the turned `mean` (d,) of the vectors."""
        shape = (self.n_parts, len(centroids[0]), int(self.part_widths_.max()))
        self.centroids_ = np.zeros(shape, dtype=np.float32)
        means = np.split(mean, np.cumsum(self.part_widths_)[:-1])
        for part, (values, moved) in enumerate(zip(centroids, means, strict=True)):
            self.centroids_[part, :, : values.shape[1]] = values + moved

    def _numbers(self, turned: Vectors) -> Codes:
        codes = np.empty((len(turned), self.n_parts), dtype=np.uint8)
        for part, columns in enumerate(self._cut(turned)):
            codes[:, part] = nearest(columns, self.centroids_[part, :, : columns.shape[1]])
        return codes

    def _rebuilt(self, codes: Codes) -> Vectors:
        widths = self.part_widths_
        return np.hstack(
            [self.centroids_[p, codes[:, p], : widths[p]] for p in range(self.n_parts)]
        )

    def _checked_codes(self, codes: ArrayLike) -> Codes:
        array = np.asarray(codes)
        if array.dtype != np.uint8:
            raise InvalidDtype(f"codes must be uint8 numbers of centroids, got {array.dtype}")
        if array.ndim != 2 or array.shape[1] != self.n_parts:
            raise InvalidInput(f"codes must have shape (n, {self.n_parts}), got {array.shape}")
        if array.size and int(array.max()) >= self.centroids_.shape[1]:
            raise InvalidInput(
                f"codes name centroid {int(array.max())}, a part has {self.centroids_.shape[1]}: "
                "encode them with the same model"
            )
        return array
