"""Rows of text under headings: aligned for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from sghash.errors import InvalidInput
from sghash.evaluation.metrics import METRICS


def format_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool = False
) -> str:
    """Return the table as text; the first column is flush left, the others flush right."""
    lines = [list(headings), *(list(row) for row in rows)]
    if any(len(line) != len(headings) for line in lines):
        raise InvalidInput(f"every row of this table must have {len(headings)} cells")
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]

    def joined(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |" if markdown else "  ".join(padded).rstrip()

    text = [joined(line) for line in lines]
    if markdown:
        rule = [
            "-" * width if column == 0 else "-" * (width - 1) + ":"
            for column, width in enumerate(widths)
        ]
        text.insert(1, f"|{'|'.join(f' {cell} ' for cell in rule)}|")
    return "\n".join(text)


def definitions(names: Sequence[str]) -> str:
    """One line per metric: what it is. A name may carry numbers, as in "recall10@100"."""
    found = {name: metric for name, metric in METRICS.items() if _used(name, names)}
    return "\n".join(f"{name}: {metric.definition}" for name, metric in found.items())


def _used(metric: str, names: Sequence[str]) -> bool:
    return any(name.rstrip("0123456789@") == metric for name in names)
