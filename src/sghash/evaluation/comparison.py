"""`evaluate`: any vectors in; out come codes, pipelines, and the cheapest that is good enough."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sghash.blocks import VectorSource
from sghash.collection.lists.targets import check_target
from sghash.data.dataset import DataSet
from sghash.data.sources import ArraySource, RowRange, RowSource
from sghash.errors import InvalidInput
from sghash.evaluation.bench import Bench
from sghash.evaluation.holdout import hold_out
from sghash.evaluation.pipelines import (
    MARK,
    PipelineResult,
    pipeline_lines,
    pipelines_of,
    recommended,
)
from sghash.evaluation.runs import RunProgress, run_all
from sghash.evaluation.specs import Run, build_model, check_run, format_model, parse_model
from sghash.evaluation.summary import Summary, summarize
from sghash.evaluation.tables import definitions, format_table
from sghash.models.capabilities import Capabilities
from sghash.progress import Bar, counting
from sghash.validation import METRICS, check_choice, check_vectors

_STEP = 8
# About as wide as the table.
_TEXT_WIDTH = 96


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Attributes
    ----------
    rows : list of dict
        One result row per model, length and seed, as in a rows file.
    wanted : tuple of (name, value)
        The recall that was wanted, as in ("recall10@100", 0.9).
    shortest : dict of model -> int or None
        Fewest bits with which each model reaches it; None if none of the lengths does.
    target_recall : float or None
        The recall after all stages that `recommended` must reach; None where codes were judged
        alone.
    """

    rows: list[dict[str, Any]]
    wanted: tuple[str, float]
    shortest: dict[str, int | None]
    target_recall: float | None = None

    @property
    def pipelines(self) -> list[PipelineResult]:
        """Codes with the stages that follow them, fewest bytes first."""
        return pipelines_of(self.summaries)

    @property
    def recommended(self) -> PipelineResult | None:
        """The pipeline of the fewest bytes that reaches the target; None where none does."""
        if self.target_recall is None:
            return None
        return recommended(self.pipelines, self.target_recall)

    @property
    def summaries(self) -> list[Summary]:
        """Mean and interval over seeds, per model and length."""
        return sorted(
            summarize(self.rows),
            key=lambda s: (list(self.shortest).index(_name(s)), s.group["n_bits"]),
        )

    def records(self) -> list[dict[str, Any]]:
        """One plain dict per model and length, for JSON: means, and half-widths of intervals."""
        return [
            {
                "model": _name(summary),
                "n_bits": summary.group["n_bits"],
                "n_seeds": next(iter(summary.values.values())).n,
                **{name: value.mean for name, value in _of_codes(summary).items()},
                "intervals": {n: value.half_width for n, value in _of_codes(summary).items()},
            }
            for summary in self.summaries
        ]

    def best_within(self, n_bytes: int) -> tuple[str, int, float] | None:
        """Model, bits and recall of the best codes of at most `n_bytes` bytes, or None."""
        name, _ = self.wanted
        fitting = [s for s in self.summaries if s.values["bytes_per_vector"].mean <= n_bytes]
        if not fitting:
            return None
        best = max(fitting, key=lambda s: s.values[name].mean)
        return _name(best), best.group["n_bits"], best.values[name].mean

    def __str__(self) -> str:
        return self.text()

    def text(self, *, markdown: bool = False) -> str:
        """The tables of codes and pipelines, what is recommended, and what each column means."""
        first = self.rows[0]["settings"]
        recalls = [f"recall{first['k']}@{n}" for n in first["depths"]]
        headings = ["model", "bits", "bytes", *recalls, "train s", "encode/s", "queries/s"]
        cells = [_cells(summary, recalls, first["n_vectors"]) for summary in self.summaries]
        parts = [format_table(headings, cells, markdown=markdown), "", *self._shortest_lines()]
        if self.target_recall is not None:
            table = pipeline_lines(
                self.pipelines, first["k"], self.target_recall, markdown=markdown
            )
            parts += ["", *table]
        about = (
            f"{first['n_vectors']} vectors of {first['width']} numbers "
            f"({4 * first['width']} bytes as float32), {first['n_queries']} queries, "
            f"{first['metric']}."
        )
        meanings = definitions([*recalls, "queries_per_second"])
        meanings = meanings.replace("queries_per_second:", "queries/s:")
        if not markdown:
            lines = [textwrap.wrap(line, _TEXT_WIDTH) for line in meanings.splitlines()]
            meanings = "\n".join(line for wrapped in lines for line in wrapped)
        return "\n".join([*parts, about, meanings])

    def _shortest_lines(self) -> list[str]:
        name, value = self.wanted
        found = {model: n for model, n in self.shortest.items() if n is not None}
        if not found:
            return [f"No code reaches {name} of {value:g}: try longer ones."]
        listed = ", ".join(f"{model} {n} bits" for model, n in sorted(found.items(), key=_by_bits))
        return [f"Shortest code with {name} of at least {value:g}: {listed}."]


def evaluate(
    vectors: VectorSource | ArrayLike | DataSet,
    queries: VectorSource | ArrayLike | None = None,
    *,
    models: str | Sequence[str] = ("SGH", "ITQ", "GenerativeQuantizer", "ProductQuantizer"),
    n_bits: int | Sequence[int] = (32, 64, 128, 256),
    metric: str = "l2",
    target_recall: float | None = 0.95,
    k: int = 10,
    depths: Sequence[int] | None = None,
    wanted_recall: float = 0.9,
    wanted_depth: int = 100,
    n_queries: int = 1000,
    seeds: int | Sequence[int] = (0,),
    rows: Path | None = None,
    cache: Path | None = None,
    threads: int | None = None,
    callback: Callable[[RunProgress], None] | Literal["bar"] | None = None,
) -> Evaluation:
    """Measure how well codes, and pipelines of stages that begin with them, find neighbours.

    Parameters
    ----------
    vectors : array (n, d), VectorSource or DataSet
        What is learned from and searched. A `DataSet` brings its queries and metric.
    queries : array or VectorSource (m, d), or None
        What is looked up; None sets aside `n_queries` random vectors, a tenth at most.
    models : str or sequence of str
        Names in `MODELS`, with a preset ("SGH.paper") or options ("ITQ(n_iterations=20)").
    n_bits : int or sequence of int
        Code lengths.
    metric : "l2", "ip" or "cosine"
        What makes vectors neighbours.
    target_recall : float or None
        Every code is also judged with the stages that may follow it: its decoder, and kept vectors
        of several kinds behind the shortest list that reaches this recall of k; the cheapest
        pipeline that does is recommended. None judges codes alone.
    k, depths : int, sequence of int
        RecallK@N is measured for this K and these N; None is 10, 100 and 1000, as far as there
        are vectors.
    wanted_recall, wanted_depth : float, int
        The recall at this depth that `shortest` must reach. Between two lengths of which only
        the longer one reaches it, lengths in steps of 8 bits are tried as well.
    n_queries : int
        How many vectors to set aside where no queries are given.
    seeds : int or sequence of int
        Each model is fitted once per seed.
    rows : path or None
        File of result rows: what is in it is not measured again.
    cache : folder or None
        Where ground truth is kept.
    threads : int or None
        For searching; None uses all cores.
    callback : callable(RunProgress), "bar" or None
        Told before each run what comes and how long the rest takes; "bar" shows a progress bar.
    """
    report = _reporter(callback)
    data = _data_of(vectors, queries, metric, n_queries)
    n = data.base.shape[0]
    if n < k:
        raise InvalidInput(
            f"{n} vectors are left to search, too few for {k} neighbours each: give more vectors"
        )
    chosen = depths if depths is not None else [d for d in (10, 100, 1000) if d <= n] or [n]
    depth = min(wanted_depth, n)
    bench = Bench(
        data, k=k, depths=sorted({*chosen, depth}), threads=threads, cache=cache,
        wanted=None if target_recall is None else check_target(target_recall),
    )  # fmt: skip
    models = [models] if isinstance(models, str) else models
    n_bits = [int(n_bits)] if isinstance(n_bits, (int, np.integer)) else n_bits
    seeds = [int(seeds)] if isinstance(seeds, (int, np.integer)) else seeds
    specs = {format_model(*spec): spec for spec in map(parse_model, models)}
    if not specs or not n_bits or not seeds:
        raise InvalidInput("give at least one model, one length and one seed")

    for spec in specs.values():
        check_run(Run(spec.model, min(n_bits), 0, spec.options), data.metric)
    kinds = {
        text: build_model(Run(spec.model, min(n_bits), 0, spec.options), data.metric).capabilities
        for text, spec in specs.items()
    }

    def report_between(news: RunProgress) -> None:
        if report is not None:
            why = ", to find the shortest" if news.following else ""
            report(news._replace(following=news.following + why))

    def run(
        texts: Sequence[str],
        lengths: Sequence[int],
        told: Callable[[RunProgress], None] | None = report_between,
    ) -> list[dict[str, Any]]:
        wanted = [
            Run(specs[text].model, length, seed, specs[text].options)
            for text in texts
            for length in lengths
            if _can_be(kinds[text], length)
            for seed in seeds
        ]
        return run_all(wanted, bench, rows=rows, callback=told)

    name = f"recall{k}@{depth}"
    found = run(list(specs), sorted(set(n_bits)), report)
    shortest: dict[str, int | None] = {}
    for text in specs:
        if bench.wanted is not None and kinds[text].codes != "bits":
            # Slow to learn, and the pipelines say which length is enough.
            shortest[text] = _shortest_of(text, found, name, wanted_recall)
            continue
        length = kinds[text].length
        shortest[text], more = _shorten(
            text, found, name, wanted_recall, run, least=length.least * length.bits_per_unit
        )
        found += more
    return Evaluation(found, (name, wanted_recall), shortest, bench.wanted)


def _reporter(callback: Any) -> Callable[[RunProgress], None] | None:
    """What is told of each run: the caller's function, or a bar."""
    if callback is None or (callable(callback) and not isinstance(callback, str)):
        return callback
    bar = counting(callback, "evaluating", "run")
    assert isinstance(bar, Bar)  # anything else was refused

    def show(progress: RunProgress) -> None:
        bar.describe(progress.following or "evaluating")
        bar(progress.done, progress.total)

    return show


def _can_be(kind: Capabilities, n_bits: int) -> bool:
    """Whether a quantizer has codes of this length; what bits cannot be is refused later."""
    most = kind.length.most
    return kind.codes == "bits" or most is None or n_bits <= most * kind.length.bits_per_unit


def _shortest_of(text: str, rows: list[dict[str, Any]], name: str, wanted: float) -> int | None:
    """The shortest of the lengths that were tried and reach what is wanted."""
    reached = [
        s.group["n_bits"]
        for s in summarize(rows)
        if _name(s) == text and s.values[name].mean >= wanted
    ]
    return min(reached, default=None)


def _of_codes(summary: Summary) -> dict[str, Any]:
    """What was measured of the codes alone."""
    return {name: value for name, value in summary.values.items() if MARK not in name}


def _shorten(
    text: str,
    rows: list[dict[str, Any]],
    name: str,
    wanted: float,
    run: Callable[[Sequence[str], Sequence[int]], list[dict[str, Any]]],
    *,
    least: int = 1,
) -> tuple[int | None, list[dict[str, Any]]]:
    """The fewest bits that reach `wanted`, halving the gap to the next length that does not.

    `least` is the shortest code that the model can have.
    """
    reached = {
        s.group["n_bits"]: s.values[name].mean >= wanted
        for s in summarize(rows)
        if _name(s) == text
    }
    enough = [length for length, is_enough in reached.items() if is_enough]
    if not enough:
        return None, []
    best, more = min(enough), []
    low = max((length for length in reached if length < best), default=max(0, least - _STEP))
    while best - low > _STEP:
        middle = (low + best) // 2 // _STEP * _STEP
        middle = middle if middle > low else low + _STEP
        tried = run([text], [middle])
        more += tried
        if summarize(tried)[0].values[name].mean >= wanted:
            best = middle
        else:
            low = middle
    return best, more


def _data_of(vectors: Any, queries: Any, metric: str, n_queries: int) -> DataSet:
    if isinstance(vectors, DataSet):
        if queries is not None:
            raise InvalidInput("a DataSet has its own queries: leave out queries")
        return vectors
    check_choice(metric, METRICS, name="metric")
    source = vectors if _is_source(vectors) else check_vectors(vectors)
    if queries is None:
        n_held = max(1, min(n_queries, source.shape[0] // 10))
        base, held = hold_out(source, n_held)
        return DataSet("vectors", base, ArraySource(held), metric)
    base = ArraySource(source) if isinstance(source, np.ndarray) else _row_source(source)
    asked = queries if _is_source(queries) else check_vectors(queries, name="queries")
    if asked.shape[1] != base.shape[1]:
        raise InvalidInput(
            f"the queries have {asked.shape[1]} columns, the vectors {base.shape[1]}: "
            "give queries of the same kind"
        )
    return DataSet("vectors", base, ArraySource(np.asarray(asked)), metric)


def _is_source(vectors: Any) -> bool:
    return isinstance(vectors, VectorSource) and not isinstance(vectors, np.ndarray)


def _row_source(source: VectorSource) -> RowSource:
    return source if isinstance(source, RowSource) else RowRange(source, 0, source.shape[0])


def _name(summary: Summary) -> str:
    return format_model(summary.group["model"], summary.group["asked"])


def _by_bits(item: tuple[str, int]) -> int:
    return item[1]


def _cells(summary: Summary, recalls: Sequence[str], n_vectors: int) -> list[str]:
    values = summary.values
    return [
        _name(summary),
        str(summary.group["n_bits"]),
        f"{values['bytes_per_vector'].mean:.0f}",
        *(_recall_cell(values[name].mean, values[name].half_width) for name in recalls),
        f"{values['train_seconds'].mean:.2f}",
        f"{n_vectors / values['encode_seconds'].mean:,.0f}",
        f"{values['queries_per_second'].mean:,.0f}",
    ]


def _recall_cell(mean: float, half_width: float | None) -> str:
    return f"{mean:.3f}" + ("" if half_width is None else f" ±{half_width:.3f}")
