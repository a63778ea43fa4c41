"""What a code is worth with the stages that follow it, and the cheapest pipeline for a recall.

The shortlist of a pipeline is as short as one half of the queries allows for the wanted recall; the
other half says what it then finds. Every row is scanned, one query at a time on one thread, so that
pipelines compare; a collection with lists visits fewer.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sghash.collection.incoming import as_kept
from sghash.errors import InvalidInput
from sghash.evaluation import metrics
from sghash.evaluation.bench import Bench
from sghash.evaluation.specs import format_model
from sghash.evaluation.summary import Summary
from sghash.evaluation.tables import format_table
from sghash.index import HammingIndex, TableIndex
from sghash.index.stages import Part, Query, plan_stages, run_stages
from sghash.models.base import VectorModel
from sghash.validation import Codes, Ids

#: Kinds of kept vectors that end a pipeline.
KINDS = ("int4", "int8", "float16")
#: Shortlists that are tried, in rows per neighbour.
LENGTHS = (2, 4, 8, 16, 32, 64, 128)
# Queries that are timed.
_TIMED = 100
_TEXT_WIDTH = 96
#: What stands between the name of a pipeline and that of its value.
MARK = ": "
_FIELDS = ("recall", "bytes", "milliseconds", "shortlist")


class Judged(NamedTuple):
    """A pipeline: what it found on queries that chose nothing, and what it takes."""

    stage: str
    recall: float
    n_bytes: float
    milliseconds: float
    shortlist: int

    def values(self) -> dict[str, float]:
        """As a row of results holds them."""
        numbers = self.recall, self.n_bytes, self.milliseconds, float(self.shortlist)
        return {f"{self.stage}{MARK}{name}": n for name, n in zip(_FIELDS, numbers, strict=True)}


def judge(
    model: VectorModel, codes: Codes, bench: Bench, kept: dict[str, NDArray[Any]], wanted: float
) -> list[Judged]:
    """Every pipeline that begins with these codes."""
    pipelines = _Pipelines(model, codes, bench)
    found = []
    if model.capabilities.codes == "bits":
        found.append(pipelines.judged("codes", "none", None, None))
    if model.capabilities.tables:
        found.append(pipelines.judged("decoder", "decoder", "all", None))
    for kind, rows in kept.items():
        length = pipelines.length_for(rows, wanted)
        found.append(pipelines.judged(f"{kind} vectors", "vectors", length, rows))
    return found


def kept_kinds(bench: Bench) -> dict[str, NDArray[Any]]:
    """The base in every kind of kept vectors that can hold its numbers."""
    base = np.ascontiguousarray(np.asarray(bench.base), dtype=np.float32)
    found = {}
    for kind in KINDS:
        try:
            found[kind] = as_kept(base, kind)
        except InvalidInput:  # numbers too large for it
            continue
    return found


class _Pipelines:
    """The codes of one model, ready to be searched in stages."""

    def __init__(self, model: VectorModel, codes: Codes, bench: Bench) -> None:
        self.model, self.bench, self.codes = model, bench, codes
        self.scorer = model.scorer(bench.data.metric) if model.capabilities.tables else None
        self.tables = self.hamming = None
        if self.scorer is not None:
            self.tables = TableIndex.for_model(model, metric=bench.data.metric)
            self.tables.add(codes)
        if model.capabilities.codes == "bits":
            self.hamming = HammingIndex(model.code_bits)
            self.hamming.add(codes)

    def search(self, chosen: slice, rerank: str, shortlist: Any, kept: NDArray[Any] | None) -> Ids:
        kind = "hamming" if self.hamming is not None else "tables"
        if kind == "tables" and rerank == "decoder":
            shortlist = None
        stages = plan_stages(rerank, self.bench.k, shortlist, kind=kind)
        queries = np.ascontiguousarray(self.bench.queries[chosen])
        query = Query(
            queries,
            self.bench.data.metric,
            codes=self.model.encode(queries) if stages.needs_codes else None,
            tables=self.scorer.query_tables(queries)
            if stages.needs_tables and self.scorer is not None
            else None,
        )
        part = Part(self.hamming, self.tables, kept, None)
        return run_stages(stages, [part], query, threads=1).ids

    def length_for(self, kept: NDArray[Any], wanted: float) -> Any:
        """The shortest list with which one half of the queries finds what is wanted."""
        half = slice(0, len(self.bench.queries), 2)
        n, best, most = len(self.codes), None, -1.0
        for length in LENGTHS:
            rows = min(n, length * self.bench.k)
            shortlist = rows if self.scorer is None else ("all", rows)
            recall = self._recall(half, self.search(half, "vectors", shortlist, kept))
            if recall >= wanted:
                return shortlist
            if recall > most + 1e-3:
                best, most = shortlist, recall
        return best

    def judged(self, stage: str, rerank: str, shortlist: Any, kept: NDArray[Any] | None) -> Judged:
        rest = slice(1, len(self.bench.queries), 2)
        if len(self.bench.queries) < 2:
            rest = slice(0, 1)
        recall = self._recall(rest, self.search(rest, rerank, shortlist, kept))
        n_timed = min(_TIMED, len(self.bench.queries))
        started = time.perf_counter()
        for place in range(n_timed):
            self.search(slice(place, place + 1), rerank, shortlist, kept)
        spent = (time.perf_counter() - started) * 1000 / n_timed
        n_bytes = self.codes.shape[1] + (0 if kept is None else kept.shape[1] * kept.itemsize)
        length = shortlist[1] if isinstance(shortlist, tuple) else shortlist
        return Judged(stage, recall, float(n_bytes), spent, length if type(length) is int else 0)

    def _recall(self, chosen: slice, found: Ids) -> float:
        k = self.bench.k
        return metrics.recall(self.bench.truth.ids[chosen], found, k=k, n=k)


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
            recall, n_bytes, spent, length = (values[f"{stage}{MARK}{f}"].mean for f in _FIELDS)
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
