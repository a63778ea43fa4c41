"""Every fast kernel gives what its twin in `reference` gives, and every fast kernel has a twin.

Inputs are small and mostly whole numbers: sums are then exact in any order, and ties are plenty.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sghash import kernels
from sghash.kernels.partitions import search as lists_kernel
from sghash.kernels.reference import TWINS
from tests.contracts.learning_arguments import LESSONS
from tests.contracts.search_arguments import SEARCHES, Arguments

#: Public functions that need no twin: NumPy themselves, or parts of kernels that have one.
PARTS = {
    "hamming.search": {"scanner", "scan_all"},
    "hamming.shortlist": {"with_ties"},
    "tables.search": {"make_terms"},
    "tables.rescoring": {"nibble_tables", "linear_score", "kth_smallest"},
    "tables.terms": {"gram_tables", "code_term"},
    "multi.joining": {"join_cost"},
    "learning.projection": {"arrange"},
    "learning.training": {"exponential"},
    "vectors.stored": {"row_sums", "as_vectors"},
    "vectors.small": {"check_small", "level_of", "level_at", "centred", "float_at"},
}
#: Modules that hold loops and pieces of the kernels in `TWINS`, or nothing compiled.
INNER = {
    "checks", "compiling",
    "ways", "counted", "lanes", "sorting", "threads",
    "hamming.direct", "hamming.plane_sums", "hamming.selection", "hamming.single", "hamming.sliced",
    "hamming.staging", "hamming.tiles",
    "tables.best_rows", "tables.byte_lanes", "tables.byte_scans", "tables.nibbles",
    "tables.scans", "tables.selection",
    "multi.layout", "multi.probing",
    "partitions.block_lanes", "partitions.calling", "partitions.choosing", "partitions.coarse",
    "partitions.kept", "partitions.layout", "partitions.placing", "partitions.rounding",
    "vectors.comparing", "vectors.kinds", "vectors.rotation",
}  # fmt: skip
#: Kernels that round otherwise than their twins: relative and absolute tolerance.
CLOSE = {"kept_distances", "draw_codes", "finish_residual", "logit_gradient", "adam_update"}
CLOSE |= {"softmax_gradient", "through_signs", "unit_lengths", "move"}


INPUTS = {**SEARCHES, **LESSONS}


def outcome(function: Callable[..., Any], arguments: Arguments) -> list[Any]:
    """What a call returns, and what then stands in the arrays it was given."""
    positional, named = copy.deepcopy(arguments)
    found = function(*positional, **named)
    found = getattr(found, "neighbors", found)  # beside them stand counts of what was visited
    returned = list(found) if isinstance(found, tuple) else [found] * (found is not None)
    return [*returned, *(value for value in positional if isinstance(value, np.ndarray))]


@pytest.mark.parametrize(("module", "name"), list(TWINS), ids=[name for _, name in TWINS])
@settings(max_examples=20, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_a_kernel_gives_what_its_twin_gives(module: str, name: str, seed: int) -> None:
    fast = getattr(importlib.import_module(f"sghash.kernels.{module}"), name)
    arguments = INPUTS[name](np.random.default_rng(seed))
    found, expected = outcome(fast, arguments), outcome(TWINS[module, name], arguments)
    if name == "search_partitions":  # beyond lists and rows visited stand steps of a clock
        found[-1], expected[-1] = (
            told[-1][:, : lists_kernel.SHORTLISTED] for told in (found, expected)
        )
    for got, wanted in zip(found, expected, strict=True):
        if name in CLOSE:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(got, wanted)
        assert np.asarray(got).dtype == np.asarray(wanted).dtype


def test_every_public_kernel_has_a_twin() -> None:
    inside = pkgutil.walk_packages(kernels.__path__, "sghash.kernels.")
    modules = {
        info.name.removeprefix("sghash.kernels."): info.name for info in inside if not info.ispkg
    }
    modules = {short: name for short, name in modules.items() if not short.startswith("reference")}
    assert set(modules) >= INNER
    for short in set(modules) - INNER:
        module = importlib.import_module(modules[short])
        public = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and callable(value)
            and not inspect.isclass(value)
            and getattr(value, "__module__", None) == module.__name__
        }
        twins = {name for home, name in TWINS if home == short}
        assert public == twins | PARTS.get(short, set()), short


def test_twins_take_the_same_arguments() -> None:
    for (module, name), twin in TWINS.items():
        fast = getattr(importlib.import_module(f"sghash.kernels.{module}"), name)
        names = list(inspect.signature(getattr(fast, "py_func", fast)).parameters)
        assert list(inspect.signature(twin).parameters) == names, name
