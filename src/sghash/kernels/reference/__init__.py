"""The obviously right twin of every fast kernel, in NumPy.

A twin takes the same arguments and fills the same arrays; `TWINS` says whose twin it is, and the
tests walk through it. What a fast kernel is made of needs no twin of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sghash.kernels.reference import (
    hamming,
    learning,
    multi,
    partitions,
    small,
    tables,
    vectors,
)
from sghash.kernels.reference.hamming import hamming_distances, hamming_neighbors, hamming_range
from sghash.kernels.reference.order import nearest
from sghash.kernels.reference.tables import byte_table_neighbors, byte_table_scores
from sghash.kernels.reference.vectors import exact_neighbors, vector_distances

#: Module and name of a fast kernel, both below `sghash.kernels` -> its twin.
TWINS: dict[tuple[str, str], Callable[..., Any]] = {
    ("hamming.search", "hamming_neighbors"): hamming.hamming_neighbors,
    ("hamming.search", "hamming_range"): hamming.hamming_range,
    ("hamming.shortlist", "hamming_shortlist"): hamming.hamming_shortlist,
    ("tables.bytes", "byte_table_neighbors"): tables.byte_table_neighbors,
    ("tables.search", "asymmetric_neighbors"): tables.asymmetric_neighbors,
    ("tables.rescoring", "scores"): tables.scores,
    ("tables.rescoring", "best_places"): tables.best_places,
    ("tables.terms", "code_terms"): tables.code_terms,
    ("multi.search", "multi_neighbors"): multi.multi_neighbors,
    ("multi.search", "multi_range"): multi.multi_range,
    ("multi.joining", "multi_pairs"): multi.multi_pairs,
    ("partitions.search", "search_partitions"): partitions.search_partitions,
    ("vectors.exact", "exact_neighbors"): vectors.exact_neighbors,
    ("vectors.small", "shrink"): small.shrink,
    ("vectors.small", "grow"): small.grow,
    ("vectors.stored", "kept_distances"): vectors.kept_distances,
    ("learning.projection", "pack_signs"): learning.pack_signs,
    ("learning.training", "draw_codes"): learning.draw_codes,
    ("learning.training", "finish_residual"): learning.finish_residual,
    ("learning.training", "logit_gradient"): learning.logit_gradient,
    ("learning.training", "adam_update"): learning.adam_update,
    ("learning.training", "gather_rows"): learning.gather_rows,
    ("learning.training", "hidden_units"): learning.hidden_units,
    ("learning.training", "hidden_gradient"): learning.hidden_gradient,
    ("learning.ranking", "softmax_gradient"): learning.softmax_gradient,
    ("learning.ranking", "signs_of"): learning.signs_of,
    ("learning.ranking", "through_signs"): learning.through_signs,
    ("learning.training", "unit_lengths"): learning.unit_lengths,
    ("learning.neighbors", "best_others"): learning.best_others,
    ("learning.neighbors", "two_best"): learning.two_best,
    ("learning.neighbors", "join_neighborhoods"): learning.join_neighborhoods,
    ("learning.clusters", "add_to_clusters"): learning.add_to_clusters,
    ("learning.clusters", "add_by_byte"): learning.add_by_byte,
    ("learning.clusters", "subtract_tables"): learning.subtract_tables,
    ("learning.clusters", "count_pairs"): learning.count_pairs,
    ("learning.clusters", "move"): learning.move,
    ("learning.descent", "descend_bits"): learning.descend_bits,
    ("learning.descent", "descend_codes"): learning.descend_codes,
    ("learning.descent", "descend_bytes"): learning.descend_bytes,
    ("learning.descent", "choose_bytes"): learning.choose_bytes,
}

__all__ = [
    "TWINS",
    "byte_table_neighbors",
    "byte_table_scores",
    "exact_neighbors",
    "hamming_distances",
    "hamming_neighbors",
    "hamming_range",
    "nearest",
    "vector_distances",
]
