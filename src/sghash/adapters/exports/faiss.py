"""FAISS: our codes in its indexes, and its codes in ours, with the same answers.

| here | FAISS |
|---|---|
| `HammingIndex` | `IndexBinaryFlat`, in an `IndexBinaryIDMap2` where ids have gaps |
| `PartitionedIndex` of codes of bits | `IndexBinaryIVF` with the same lists |
| `TableIndex` of a `ProductQuantizer` | `IndexPQ`, behind a `LinearTransform` if need be |

FAISS orders ties as it likes; distances are equal. It counts the bits of a byte from the other end
(`sghash.bits`), and its binary codes are whole bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sghash.bits import from_faiss as from_faiss_order, to_faiss as to_faiss_order
from sghash.errors import InvalidInput
from sghash.index import CodeIndex, HammingIndex, PartitionedIndex, TableIndex
from sghash.index.lists.arranged import arrange
from sghash.index.lists.centroids import Partitions
from sghash.index.rows import row_ids
from sghash.models import ProductQuantizer
from sghash.optional import require
from sghash.validation import Codes, Ids, check_ids, check_n_bits

# FAISS's numbers of a centroid are one byte.
_CENTROIDS = 256


class Quantized(NamedTuple):
    """A `ProductQuantizer` and the index of its codes."""

    model: ProductQuantizer
    table_index: TableIndex


def to_faiss(index: CodeIndex, model: Any = None) -> Any:
    """Return a FAISS index of the same codes with the same ids.

    `model` is needed for a `TableIndex`: the `ProductQuantizer` that its codes were made by. The
    searches of what comes back take codes in FAISS's order of bits (`sghash.bits.to_faiss`), or
    vectors where the codes are those of a quantizer.
    """
    faiss = require("faiss", extra="faiss")
    if isinstance(index, TableIndex) or model is not None:
        return _quantized_to_faiss(faiss, index, model)
    if isinstance(index, PartitionedIndex):
        return _lists_to_faiss(faiss, index)
    if not isinstance(index, CodeIndex):
        raise InvalidInput(f"to_faiss takes an index of sghash, got {type(index).__name__}")
    flat = faiss.IndexBinaryFlat(8 * index.n_bytes)
    codes = to_faiss_order(index.codes, 8 * index.n_bytes)
    numbers = index.ids
    if _are_rows(numbers):
        flat.add(codes)
        return flat
    with_numbers = faiss.IndexBinaryIDMap2(flat)
    with_numbers.add_with_ids(codes, numbers)
    with_numbers.referenced_objects = [flat]  # FAISS does not own what it wraps
    return with_numbers


def from_faiss(index: Any, *, n_bits: int | None = None) -> CodeIndex | Quantized:
    """Return our index of the codes of a FAISS index, with its ids; a quantizer with its model.

    `n_bits` is the length of binary codes that do not fill their last byte.
    """
    faiss = require("faiss", extra="faiss")
    if isinstance(index, faiss.IndexBinary):
        return _binary_from_faiss(faiss, faiss.downcast_IndexBinary(index), n_bits)
    if not isinstance(index, faiss.Index):
        raise InvalidInput(f"from_faiss takes an index of FAISS, got {type(index).__name__}")
    return _quantized_from_faiss(faiss, faiss.downcast_index(index))


def _are_rows(ids: Ids) -> bool:
    return bool(len(ids) == 0 or (ids[0] == 0 and ids[-1] == len(ids) - 1))


def _lists_to_faiss(faiss: Any, index: PartitionedIndex) -> Any:
    held = index.held
    if held.partitions is None:
        raise InvalidInput("the index has no lists yet: add codes before it goes to FAISS")
    n_bits = 8 * index.n_bytes
    slots, lists = held.used()
    if len(slots) != held.n:
        raise InvalidInput(
            "some rows stand in two lists, and FAISS would find them twice: "
            "make the index with spill=0"
        )
    rows = held.ranks[slots].astype(np.int64)
    codes, numbers = held.codes, index.ids
    centroids = held.partitions.centroids
    if not held.partitions.by_code:
        centroids = _majorities(codes[rows], lists, held.partitions.n_lists, index.n_bytes)
    quantizer = faiss.IndexBinaryFlat(n_bits)
    quantizer.add(to_faiss_order(centroids, n_bits))
    ivf = faiss.IndexBinaryIVF(quantizer, n_bits, len(centroids))
    ivf.is_trained = True
    # Pointers keep nothing alive: the arrays need names until FAISS has copied them.
    turned, own = to_faiss_order(codes[rows], n_bits), np.ascontiguousarray(numbers[rows])
    ivf.add_core(held.n, *(faiss.swig_ptr(array) for array in (turned, own, lists)))
    ivf.nprobe = len(centroids)
    ivf.use_heap = True  # without it, FAISS 1.15 may leave answers empty
    ivf.referenced_objects = [quantizer]
    return ivf


def _majorities(codes: Codes, lists: Ids, n_lists: int, n_bytes: int) -> Codes:
    """The bits that most codes of a list have: centroids as FAISS's binary lists want them."""
    sums = np.zeros((n_lists, 8 * n_bytes), dtype=np.int64)
    np.add.at(sums, lists, np.unpackbits(codes, axis=1))
    sizes = np.bincount(lists, minlength=n_lists)
    return np.packbits(2 * sums > sizes[:, None], axis=1)


def _binary_from_faiss(faiss: Any, index: Any, n_bits: int | None) -> CodeIndex:
    n_bits = check_n_bits(index.d if n_bits is None else n_bits)
    if not index.d - 8 < n_bits <= index.d:
        raise InvalidInput(f"n_bits is {n_bits}, the codes of this FAISS index have {index.d} bits")
    if isinstance(index, faiss.IndexBinaryIVF):
        return _lists_from_faiss(faiss, index, n_bits)
    ids: ArrayLike | None = None
    if isinstance(index, faiss.IndexBinaryIDMap):
        ids = faiss.vector_to_array(index.id_map).copy()
        index = faiss.downcast_IndexBinary(index.index)
    if not isinstance(index, faiss.IndexBinaryFlat):
        raise _unknown(index)
    codes = faiss.vector_to_array(index.xb).reshape(index.ntotal, index.d // 8)
    found = HammingIndex(n_bits)
    found.add(from_faiss_order(codes, n_bits), ids=ids)
    return found


def _lists_from_faiss(faiss: Any, index: Any, n_bits: int) -> PartitionedIndex:
    coarse = faiss.downcast_IndexBinary(index.quantizer)
    if not isinstance(coarse, faiss.IndexBinaryFlat):
        raise _unknown(coarse)
    width = index.d // 8
    centroids = faiss.vector_to_array(coarse.xb).reshape(-1, width)
    codes, numbers, lists = [], [], []
    for number in range(index.nlist):
        size = index.invlists.list_size(number)
        if size:
            own = faiss.rev_swig_ptr(index.invlists.get_codes(number), size * width)
            codes.append(own.reshape(size, width).copy())
            numbers.append(faiss.rev_swig_ptr(index.invlists.get_ids(number), size).copy())
            lists.append(np.full(size, number, dtype=np.int64))
    partitioned = PartitionedIndex(width, n_bits=n_bits, n_lists=index.nlist)
    if not codes:
        return partitioned
    ids = check_ids(np.concatenate(numbers), name="ids of the FAISS index")
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    if len(ids) > 1 and (ids[1:] == ids[:-1]).any():
        raise InvalidInput("the FAISS index holds an id twice: every code needs an id of its own")
    partitions = Partitions(
        from_faiss_order(centroids, 8 * width), "hamming", np.zeros(1, dtype=np.int64),
        np.empty((0, 0), dtype=np.float16),
    )  # fmt: skip
    rows = from_faiss_order(np.concatenate(codes)[order], n_bits)
    held = arrange(
        rows, None, np.arange(len(ids)), np.concatenate(lists)[order], partitions, row_ids(ids),
        int(ids[-1]) + 1,
    )  # fmt: skip
    return partitioned.like(held)


def _quantized_to_faiss(faiss: Any, index: CodeIndex, model: Any) -> Any:
    if not isinstance(model, ProductQuantizer):
        raise InvalidInput(
            "FAISS keeps codes with their centroids: give the fitted ProductQuantizer that made "
            f"them as model, got {type(model).__name__}"
        )
    model.fingerprint_  # noqa: B018 - raises NotFitted
    if index.n_bytes != model.n_parts:
        raise InvalidInput(
            f"the codes take {index.n_bytes} bytes, those of the model {model.n_parts}: "
            "give the model that made them"
        )
    codes = np.ascontiguousarray(index.codes)
    model.decode(codes[:0])
    n_parts, n_centroids, width = model.centroids_.shape
    if codes.size and int(codes.max()) >= n_centroids:
        raise InvalidInput(
            f"codes name centroid {int(codes.max())}, a part of the model has {n_centroids}: "
            "give the model that made them"
        )
    quantized = faiss.IndexPQ(n_parts * width, n_parts, 8)
    # A part with fewer centroids repeats its first one, which comes first in every comparison.
    centroids = np.repeat(model.centroids_[:, :1], _CENTROIDS, axis=1)
    centroids[:, :n_centroids] = model.centroids_
    faiss.copy_array_to_vector(np.ascontiguousarray(centroids).reshape(-1), quantized.pq.centroids)
    quantized.is_trained = True
    chain = [quantized]
    matrix = _transform(model)
    if matrix is not None:
        transform = faiss.LinearTransform(matrix.shape[1], matrix.shape[0], False)
        faiss.copy_array_to_vector(matrix.reshape(-1), transform.A)
        transform.is_trained = True
        chain.append(faiss.IndexPreTransform(transform, quantized))
        chain[-1].referenced_objects = [transform, quantized]
    if not _are_rows(index.ids):
        chain.append(faiss.IndexIDMap2(chain[-1]))
        chain[-1].referenced_objects = [chain[-2]]
        faiss.copy_array_to_vector(index.ids, chain[-1].id_map)
        chain[-1].construct_rev_map()
    faiss.copy_array_to_vector(codes.reshape(-1), quantized.codes)
    for made in chain:
        made.ntotal = len(codes)
    return chain[-1]


def _transform(model: ProductQuantizer) -> NDArray[np.float32] | None:
    """The matrix (columns of all parts, d) that FAISS multiplies by; None where it is the unit.

    FAISS's parts are all as wide: columns of zeros fill up those that are narrower.
    """
    n_parts, _, width = model.centroids_.shape
    widths = model.part_widths_
    if not model.rotation_.size and (widths == width).all():
        return None
    n_columns = int(widths.sum())
    rotation = model.rotation_ if model.rotation_.size else np.eye(n_columns, dtype=np.float32)
    places = np.concatenate([part * width + np.arange(own) for part, own in enumerate(widths)])
    matrix = np.zeros((n_parts * width, n_columns), dtype=np.float32)
    matrix[places] = rotation.T
    return matrix


def _quantized_from_faiss(faiss: Any, index: Any) -> Quantized:
    ids: ArrayLike | None = None
    if isinstance(index, faiss.IndexIDMap):
        ids = faiss.vector_to_array(index.id_map).copy()
        index = faiss.downcast_index(index.index)
    matrix: NDArray[np.float32] | None = None
    if isinstance(index, faiss.IndexPreTransform):
        if index.chain.size() != 1:
            raise InvalidInput("the FAISS index has several transforms: only one can be taken")
        transform = faiss.downcast_VectorTransform(index.chain.at(0))
        if not isinstance(transform, faiss.LinearTransform) or transform.have_bias:
            raise InvalidInput("the FAISS index transforms vectors by more than one matrix")
        matrix = faiss.vector_to_array(transform.A).reshape(transform.d_out, transform.d_in)
        index = faiss.downcast_index(index.index)
    if not isinstance(index, faiss.IndexPQ) or index.pq.nbits != 8 or not index.is_trained:
        raise _unknown(index)
    if index.metric_type != faiss.METRIC_L2:
        raise InvalidInput(
            "the FAISS index compares by another metric than L2, which a TableIndex does not: make "
            "it with METRIC_L2, of vectors of length 1 where cosines are meant"
        )
    quantizer = index.pq
    shape = (quantizer.M, _CENTROIDS, quantizer.dsub)
    centroids = faiss.vector_to_array(quantizer.centroids).reshape(shape).copy()
    model = _model_of(centroids, matrix)
    found = TableIndex.for_model(model)
    found.add(faiss.vector_to_array(index.codes).reshape(index.ntotal, quantizer.M), ids=ids)
    return Quantized(model, found)


def _model_of(centroids: NDArray[np.float32], matrix: NDArray[np.float32] | None) -> Any:
    """A fitted `ProductQuantizer` of FAISS's centroids and matrix."""
    n_parts, _, width = centroids.shape
    n_columns = n_parts * width
    used = np.ones(n_columns, dtype=np.bool_) if matrix is None else np.any(matrix != 0, axis=1)
    widths = used.reshape(n_parts, width).sum(axis=1).astype(np.int32)
    # Columns that the matrix leaves at zero were put there to make the parts as wide as each other.
    filled = (np.arange(width) < widths[:, None]).reshape(-1)
    square = matrix is None or int(used.sum()) == matrix.shape[1]
    if not np.array_equal(used, filled) or not square:
        raise InvalidInput(
            "the FAISS index changes the number of columns before it quantizes them: "
            "a ProductQuantizer only rotates"
        )
    if np.any(centroids * ~filled.reshape(n_parts, 1, width)):
        raise InvalidInput("the FAISS index has centroids where its transform gives zeros")
    rotation = np.zeros((0, 0), dtype=np.float32)
    if matrix is not None:
        rotation = np.ascontiguousarray(matrix[used].T)
        if not np.allclose(rotation @ rotation.T, np.eye(len(rotation)), atol=1e-3):
            raise InvalidInput("the FAISS index multiplies by a matrix that is no rotation")
        if np.array_equal(rotation, np.eye(len(rotation), dtype=np.float32)):
            rotation = np.zeros((0, 0), dtype=np.float32)
    model = ProductQuantizer(n_parts, rotate=bool(rotation.size))
    model.rotation_, model.part_widths_, model.centroids_ = rotation, widths, centroids
    model.n_features_in_ = int(widths.sum())
    model.remember_shapes()
    return model


def _unknown(index: Any) -> InvalidInput:
    return InvalidInput(
        f"codes cannot be taken from a FAISS {type(index).__name__}: use IndexBinaryFlat, "
        "IndexBinaryIVF over an IndexBinaryFlat, or IndexPQ of 8 bits"
    )
