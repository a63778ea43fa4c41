"""What the studies share: their kind of experiment, and a table with a line per setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sghash.data.catalog import CATALOG
from sghash.experiments.comparisons import estimates, text_of
from sghash.experiments.experiment import (
    NOT_IN_PAPER,
    Context,
    Drawing,
    Experiment,
    Row,
    Table,
    Verdict,
    check_rows,
)
from sghash.experiments.sets import BenchSet

#: Images, descriptors, words and sentences: what tables over data sets run through.
ALL_SETS = ("mnist", "sift-photos", "cifar10-gist", "glove100", "minilm-wordnet")
QUICK = "digits"


def whole_set(name: str) -> BenchSet:
    """A set of the catalogue with all its vectors and queries."""
    entry = CATALOG[name]
    return BenchSet(name, name, entry.base[0], entry.queries[0], entry.metric)


def sets_of(context: Context, names: Sequence[str]) -> list[BenchSet]:
    """The named sets, or in a quick run the built-in digits."""
    if context.quick:
        return [BenchSet(QUICK, QUICK, 1600, 150)]
    return [whole_set(name) for name in names]


def study(
    name: str,
    *,
    title: str,
    question: str,
    setup: str,
    run: Callable[[Context], list[Row]],
    draw: Callable[[Sequence[Row]], list[Table | Drawing]],
) -> Experiment:
    """A study: no claim of the paper, so its verdict is its number of rows."""

    def verdict(rows: Sequence[Row]) -> Verdict:
        return Verdict("open", f"The paper makes no claim here; {len(check_rows(rows))} rows.")

    return Experiment(
        name=name,
        title=title,
        claim=question,
        shown=NOT_IN_PAPER,
        setup=setup,
        run=run,
        verdict=verdict,
        draw=lambda rows: draw(check_rows(rows)),
    )


def table_of(
    rows: Sequence[Row], by: Sequence[str], values: Sequence[str], caption: str = ""
) -> Table:
    """A line per combination of the settings `by`, the means over seeds of `values` as cells."""
    found = [estimates(rows, value, by) for value in values]
    groups = dict.fromkeys(tuple(row["settings"][name] for name in by) for row in rows)
    cells = [[*map(str, group), *(text_of(one.get(group)) for one in found)] for group in groups]
    names = [name.replace("_", " ") for name in (*by, *values)]
    return Table(names, cells, caption)
