"""Pipelines out of result rows, and the cheapest that reaches a recall."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sghash.evaluation.specs import format_model
from sghash.evaluation.stages import FIELDS, MARK
from sghash.evaluation.summary import Summary
from sghash.evaluation.tables import format_table

_TEXT_WIDTH = 96


class PipelineResult(NamedTuple):
    """A code and what follows it: recall at k on queries that chose nothing, and what it takes."""

    model: str
    n_bits: int
    stage: str
    recall: float
    n_bytes: float
    milliseconds: float
    shortlist: int
    build_seconds: float

    @property
    def name(self) -> str:
        """The pipeline in a few words."""
        return f"{self.model}, {self.n_bits} bits, {self.stage}"


def pipelines_of(summaries: Iterable[Summary]) -> list[PipelineResult]:
    """Every pipeline that was measured, fewest bytes first."""
    found = []
    for summary in summaries:
        values = summary.values
        stages = dict.fromkeys(name.split(MARK)[0] for name in values if MARK in name)
        seconds = values["train_seconds"].mean + values["encode_seconds"].mean
        for stage in stages:
            recall, n_bytes, spent, length = (values[f"{stage}{MARK}{f}"].mean for f in FIELDS)
            model = format_model(summary.group["model"], summary.group["asked"])
            found.append(
                PipelineResult(
                    model, summary.group["n_bits"], stage, recall, n_bytes, spent, round(length),
                    seconds,
                )
            )  # fmt: skip
    return sorted(found, key=lambda one: (one.n_bytes, -one.recall, one.milliseconds))


def recommended(pipelines: Sequence[PipelineResult], target: float) -> PipelineResult | None:
    """The fewest bytes that reach the target, then the fastest; None where nothing does."""
    reaching = [one for one in pipelines if one.recall >= target]
    return min(reaching, key=lambda one: (one.n_bytes, one.milliseconds), default=None)


def worth_showing(pipelines: Sequence[PipelineResult]) -> list[PipelineResult]:
    """Those that no other beats in recall, bytes and speed at once."""
    return [
        one
        for one in pipelines
        if not any(
            other.recall >= one.recall
            and other.n_bytes <= one.n_bytes
            and other.milliseconds <= one.milliseconds
            and other != one
            for other in pipelines
        )
    ]


def pipeline_lines(
    pipelines: Sequence[PipelineResult], k: int, target: float, *, markdown: bool = False
) -> list[str]:
    """The table of pipelines that are worth a look, and the recommendation."""
    chosen = recommended(pipelines, target)
    shown = worth_showing(pipelines)
    heads = ["pipeline", "bytes", f"recall{k}@{k}", "ms", "rows", "build s", ""]
    cells = [
        [
            one.name,
            f"{one.n_bytes:.0f}",
            f"{one.recall:.3f}",
            f"{one.milliseconds:.3f}",
            str(one.shortlist or ""),
            f"{one.build_seconds:.1f}",
            "*" if one == chosen else "",
        ]
        for one in (shown if chosen is None or chosen in shown else [*shown, chosen])
    ]
    if chosen is None:
        best = max(pipelines, key=lambda one: one.recall)
        advice = (
            f"No pipeline reaches recall{k}@{k} of {target:g}: the best is {best.name} "
            f"({best.recall:.3f}); try longer codes."
        )
    else:
        advice = (
            f"Cheapest pipeline with recall{k}@{k} of at least {target:g} (*): {chosen.name}, "
            f"{chosen.n_bytes:.0f} bytes."
        )
    wrapped = [advice] if markdown else textwrap.wrap(advice, _TEXT_WIDTH)
    return [format_table(heads, cells, markdown=markdown), "", *wrapped]


def plain(one: PipelineResult | None) -> dict[str, Any] | None:
    """For JSON."""
    return None if one is None else {**one._asdict(), "pipeline": one.name}
