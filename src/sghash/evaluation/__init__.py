"""Measuring: true neighbours, metrics as pure functions, runs that become rows, and tables."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Bench": "sghash.evaluation.bench",
    "BitValues": "sghash.evaluation.single_bits",
    "Evaluation": "sghash.evaluation.comparison",
    "METRICS": "sghash.evaluation.metrics",
    "Run": "sghash.evaluation.specs",
    "RunProgress": "sghash.evaluation.runs",
    "bit_values": "sghash.evaluation.single_bits",
    "append_row": "sghash.evaluation.rows",
    "definitions": "sghash.evaluation.tables",
    "evaluate": "sghash.evaluation.comparison",
    "format_model": "sghash.evaluation.specs",
    "format_table": "sghash.evaluation.tables",
    "ground_truth": "sghash.evaluation.truth",
    "hold_out": "sghash.evaluation.holdout",
    "key_of": "sghash.evaluation.rows",
    "make_row": "sghash.evaluation.rows",
    "parse_model": "sghash.evaluation.specs",
    "read_rows": "sghash.evaluation.rows",
    "run_all": "sghash.evaluation.runs",
    "run_once": "sghash.evaluation.runs",
    "summarize": "sghash.evaluation.summary",
    "truth_folder": "sghash.evaluation.truth",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sghash.evaluation' has no attribute {name!r}")
