"""What an experiment is: a claim of the paper, rows that test it, and a verdict read from the rows.

`run` measures and keeps every finished row, `verdict` and `draw` only read rows. So an interrupted
run goes on where it stopped, and verdicts can be tested on rows that nobody measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sghash.errors import InvalidInput
from sghash.evaluation.rows import append_row, key_of, make_row, read_rows

Row: TypeAlias = dict[str, Any]
#: What one measurement gives: numbers by name, or lists of numbers where a curve was measured.
Values: TypeAlias = dict[str, Any]

OUTCOMES = ("agrees", "differs", "open")
#: Where an experiment is shown in the paper, if it is our own.
NOT_IN_PAPER = "not in the paper"
# Counts up when the meaning of a value changes: older rows are then measured again.
PROTOCOL = 2


class Verdict(NamedTuple):
    """`outcome`, one of `OUTCOMES`, and the sentences with the numbers it rests on."""

    outcome: str
    sentence: str


class Table(NamedTuple):
    """Cells of text under headings, with a caption."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    caption: str = ""


class Drawing(NamedTuple):
    """A figure that is made when it is wanted, its caption, and in words what is to be seen."""

    make: Callable[[], Any]
    caption: str
    alt: str


@dataclass(frozen=True)
class Context:
    """Where rows are kept, and how much is measured.

    Attributes
    ----------
    folder : Path
        Folder of the row files.
    quick : bool
        Small built-in data in the place of the real sets: shows that everything runs, no more.
    seeds : int
        Repetitions of SGH and ITQ; slow methods have fewer (`repetitions`).
    threads : int or None
        For searching; None uses all cores.
    originals : bool
        The paper's own sets in the place of what stands for them, where they can be had.
    say : callable(str)
        Told before each measurement what comes.
    stream_rows : int or None
        Rows of the stream of `streamed_recall`; None is its usual number.
    also : sequence of Path
        Folders whose rows are known too, and never written to.
    """

    folder: Path
    quick: bool = False
    seeds: int = 5
    threads: int | None = None
    originals: bool = False
    say: Callable[[str], None] = lambda text: None
    stream_rows: int | None = None
    also: Sequence[Path] = ()
    _known: dict[str, dict[str, Row]] = field(default_factory=dict, init=False, repr=False)

    def measured(
        self, store: str, settings: Mapping[str, Any], measure: Callable[[], Values]
    ) -> Row:
        """Return the row with these settings: from the file `store`, or measured and kept there."""
        known = self._rows_of(store)
        key = key_of([PROTOCOL, store, settings])
        if key not in known:
            self.say(f"  {_described(settings)}")
            row = make_row(key, settings, measure())
            append_row(self._path(store), row)
            known[key] = row
        return known[key]

    def knows(self, store: str, settings: Mapping[str, Any]) -> bool:
        """Whether `measured` would return this row without measuring."""
        return key_of([PROTOCOL, store, settings]) in self._rows_of(store)

    def pick(self, quick: Any, full: Any) -> Any:
        """The first for a quick run, the second for a full one."""
        return quick if self.quick else full

    def _rows_of(self, store: str) -> dict[str, Row]:
        if store not in self._known:
            # Later rows count: those of our own folder come last.
            paths = [folder / f"{store}.jsonl" for folder in (*self.also, self.folder)]
            self._known[store] = {row["key"]: row for path in paths for row in read_rows(path)}
        return self._known[store]

    def _path(self, store: str) -> Path:
        return self.folder / f"{store}.jsonl"


@dataclass(frozen=True)
class Experiment:
    """A claim of the paper and how it is tested.

    Attributes
    ----------
    name : str
        By which it is asked for; the name of its file.
    title : str
        Heading of its section.
    claim : str
        What the paper says, in one sentence.
    shown : str
        Where the paper shows it.
    setup : str
        What stands in the place of what, sizes and repetitions of the full run.
    run : callable(Context) -> rows
        Measures what is missing; returns all rows, of this run only.
    verdict : callable(rows) -> Verdict
        Reads the rows.
    draw : callable(rows) -> list of Table and Drawing
        What the page shows, in this order.
    notes : str
        What explains a difference.
    """

    name: str
    title: str
    claim: str
    shown: str
    setup: str
    run: Callable[[Context], list[Row]]
    verdict: Callable[[Sequence[Row]], Verdict]
    draw: Callable[[Sequence[Row]], list[Table | Drawing]]
    notes: str = ""


def check_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """Refuse to judge or draw what was never measured."""
    if not rows:
        raise InvalidInput("there are no rows to judge: run the experiment first")
    return rows


# What is shown of a measurement; a number alone would not say what it is.
_TOLD = {"set": "{}", "model": "{}", "n_bits": "{} bits", "seed": "seed {}"}


def _described(settings: Mapping[str, Any]) -> str:
    known = [text.format(settings[name]) for name, text in _TOLD.items() if name in settings]
    others = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in settings.items()
        if name not in (*_TOLD, "source", "n_vectors", "n_queries")
        and not isinstance(value, (dict, list))
    ]
    return ", ".join([*known, *others])
