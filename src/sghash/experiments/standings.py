"""Verdicts from many comparisons: who is ahead where, with the number of comparisons counted in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sghash.evaluation.summary import Estimate
from sghash.experiments.comparisons import (
    LEAST_RECALL,
    LEVEL,
    Cell,
    Difference,
    Measured,
    as_measured,
    difference,
)
from sghash.experiments.experiment import Table

Key = TypeVar("Key", bound=Hashable)
AHEAD, EVEN, BEHIND, UNKNOWN = "ahead", "not told apart", "behind", "not known"


class Judgement(NamedTuple):
    """How something stands in a cell, the rival that decides, and the difference from it.

    Not known: a rival was not measured there (`gap` is None), or has too few seeds. `chance` is
    how easily chance makes the difference, all comparisons counted in: at most `LEVEL` is needed.
    A difference that is at most `least` is none, however sure it is.
    """

    word: str
    rival: str
    gap: Difference | None
    seeds: tuple[int, int]
    chance: float = 1.0
    least: float = 0.0

    @property
    def is_small(self) -> bool:
        """Whether the difference counts as none, whatever its chance."""
        return self.gap is not None and abs(self.gap.mean) <= self.least


class Standing(NamedTuple):
    """Cells in which something is ahead of all others, not told apart from one, or behind one."""

    ahead: int
    even: int
    behind: int
    unknown: int = 0

    def __str__(self) -> str:
        text = f"ahead in {self.ahead}, behind in {self.behind}, {EVEN} in {self.even}"
        text += f", not known in {self.unknown}" if self.unknown else ""
        return f"{text} of {sum(self)}"


def counted_in(chances: Mapping[Key, float]) -> dict[Key, float]:
    """Each chance as it is among all of them (Holm): those up to a level hold together at it."""
    found: dict[Key, float] = {}
    largest = 0.0
    for place, key in enumerate(sorted(chances, key=lambda key: chances[key])):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[key]))
        found[key] = largest
    return found


def holm(chances: Mapping[Key, float], level: float = LEVEL) -> set[Key]:
    """Those that all hold together, with a chance of `level` that any of them does not (Holm)."""
    return {key for key, chance in counted_in(chances).items() if chance <= level}


def leads(
    gaps: Sequence[Difference], least: float | Sequence[float] = 0.0, level: float = LEVEL
) -> list[int]:
    """1, -1 or 0 (open) for each of several differences, their number counted in."""
    bounds = [least] * len(gaps) if isinstance(least, (int, float)) else least
    chances = {
        place: gap.chance if abs(gap.mean) > bound else 1.0
        for place, (gap, bound) in enumerate(zip(gaps, bounds, strict=True))
    }
    sure = holm(chances, level)
    return [(1 if gap.mean > 0 else -1) if n in sure else 0 for n, gap in enumerate(gaps)]


def judgements(
    found: Mapping[Cell, Measured] | Mapping[Cell, Estimate],
    method: str,
    rivals: Sequence[str],
    *,
    least: float = LEAST_RECALL,
    larger_is_better: bool = True,
    level: float = LEVEL,
) -> dict[Cell, Judgement]:
    """How `method` stands to `rivals` in each cell; a cell of `found` is (..., method).

    Behind: any rival is clearly better, where all comparisons of all cells count. Ahead: it is
    clearly better than every rival; as all have to hold, only the cells count.
    """
    known = {cell: as_measured(value) for cell, value in found.items()}
    if not any(cell[-1] == method for cell in known):
        return {}
    sign = 1 if larger_is_better else -1
    places = list(dict.fromkeys(cell[:-1] for cell in known))
    gaps = {
        (place, rival): _gap(known.get((*place, method)), known.get((*place, rival)), sign)
        for place in places
        for rival in rivals
    }
    worse = {key: _chance(gap, least, -1) for key, gap in gaps.items()}
    better = {key: _chance(gap, least, 1) for key, gap in gaps.items()}
    of_worse = counted_in(worse)
    of_better = counted_in(
        {place: max(better[place, rival] for rival in rivals) for place in places}
    )
    behind = {key for key, chance in of_worse.items() if chance <= level}
    ahead = {place for place, chance in of_better.items() if chance <= level}
    judged = {}
    for place in places:
        own = {rival: gaps[place, rival] for rival in rivals}
        beaten_by = {rival: gap for rival, gap in own.items() if (place, rival) in behind}
        missing = [rival for rival, gap in own.items() if gap is None or gap.seeds is None]
        # The rival that decides: the best of those that win, or else the one least surely beaten.
        if beaten_by:
            word, rival = BEHIND, min(beaten_by, key=lambda name: _mean(beaten_by[name]))
        elif missing and place not in ahead:
            word, rival = UNKNOWN, missing[0]
        else:
            word = AHEAD if place in ahead else EVEN
            rival = max(own, key=lambda name: (better[place, name], -_mean(own[name])))
        n = tuple(known[cell].seeds.n if cell in known else 0
                  for cell in ((*place, method), (*place, rival)))  # fmt: skip
        gap = own[rival]
        shown = None if gap is None else gap._replace(mean=sign * gap.mean)
        chance = of_worse[place, rival] if _mean(gap) < 0 else of_better[place]
        judged[place] = Judgement(word, rival, shown, (n[0], n[1]), chance, least)
    return judged


def count(judged: Iterable[Judgement]) -> Standing:
    """In how many cells which word was said."""
    words = [one.word for one in judged]
    return Standing(*(words.count(word) for word in (AHEAD, EVEN, BEHIND, UNKNOWN)))


def standing(
    found: Mapping[Cell, Measured] | Mapping[Cell, Estimate],
    method: str,
    rivals: Sequence[str],
    **options: Any,
) -> Standing:
    """How often `method` is ahead, level and behind; options are those of `judgements`."""
    return count(judgements(found, method, rivals, **options).values())


def deciding_rivals(judged: Mapping[Cell, Judgement], method: str, caption: str) -> Table:
    """A line per cell: the rival that decides, and how far `method` is from it."""
    cells = []
    for place, one in judged.items():
        seeds = f"{one.seeds[0]}, {one.seeds[1]}"
        where = ", ".join(_place(part) for part in place)
        chance = "< 0.001" if one.chance < 0.001 else f"{one.chance:.3f}"
        if one.is_small:
            chance = f"difference up to {one.least:g}"
        cells.append([where, one.rival, *gap_cells(one.gap), chance, seeds, one.word])
    headings = ["where", "closest rival", *GAP_HEADINGS, "chance (Holm)", "seeds", method]
    return Table(headings, cells, caption)


#: What `gap_cells` are called: the difference, and half-widths or ends of its 95 % intervals.
GAP_HEADINGS = ("difference", "over seeds", "over queries", "over both")


def gap_cells(gap: Difference | None, digits: int = 3) -> list[str]:
    """A difference and its intervals as cells of a table."""
    if gap is None:
        return ["not measured", "", "", ""]
    form = f"+.{digits}f"
    return [
        format(gap.mean, form),
        "too few seeds" if gap.seeds is None else f"± {gap.seeds:.{digits}f}",
        "" if gap.queries is None else " to ".join(format(end, form) for end in gap.queries),
        "" if gap.half is None else f"± {gap.half:.{digits}f}",
    ]


def outcome_of(stand: Standing) -> str:
    """Whether "the best everywhere" holds: never behind, and ahead in most cells.

    One cell behind contradicts it, whatever is missing; nothing supports it where something is.
    """
    if stand.behind:
        return "differs"
    return "agrees" if stand.ahead > stand.even and not stand.unknown else "open"


def outcome_of_bounds(gaps: Sequence[Difference | None]) -> str:
    """Whether all values lie below their bounds; `gaps` are value minus bound, None is missing.

    They do where every whole interval is below; one clearly above, all counted, contradicts.
    """
    known = [gap for gap in gaps if gap is not None]
    if 1 in leads(known):
        return "differs"
    is_below = len(known) == len(gaps) > 0 and all(_chance(g, 0.0, -1) <= LEVEL for g in known)
    return "agrees" if is_below else "open"


def worst_of(outcomes: Sequence[str]) -> str:
    """One outcome for a claim of several parts: it differs as soon as one part does."""
    return next((o for o in ("differs", "open") if o in outcomes), "agrees")


def _gap(own: Measured | None, other: Measured | None, sign: int) -> Difference | None:
    """How much better `own` is."""
    if own is None or other is None:
        return None
    found = difference(own, other)
    return found._replace(mean=sign * found.mean)


def _chance(gap: Difference | None, least: float, sign: int) -> float:
    """How easily chance makes a difference to this side; 1 for one to the other, or below least."""
    return gap.chance if gap is not None and sign * gap.mean > least else 1.0


def _mean(gap: Difference | None) -> float:
    return 0.0 if gap is None else gap.mean


def _place(part: Any) -> str:
    return f"{part} bits" if isinstance(part, int) else str(part)
