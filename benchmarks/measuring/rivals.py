"""The default beside every method of the paper: ahead, within noise or behind, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from measuring.ratios import Row
from measuring.verdicts import at_least, at_most, line
from sghash.experiments.comparisons import LEAST_RECALL, lead, measurements
from sghash.experiments.hashing import DEFAULT, RIVALS, draws_nothing

LENGTHS = (8, 16, 32, 64)
VALUES = ("recall10@100", "recall100@100")
AHEAD_SHARE = at_least(0.75)


class Cell(NamedTuple):
    """A set, a length and a recall: the best rival, both means, and 1, 0 or -1 for our lead.

    The lead is the worst one over all rivals: ahead means ahead of every one of them.
    """

    set: str
    n_bits: int
    value: str
    rival: str
    ours: float
    theirs: float
    lead: int

    def __str__(self) -> str:
        return (
            f"{self.set} {self.n_bits} bits, {self.value}: {self.ours:.3f}, "
            f"{self.rival} {self.theirs:.3f}"
        )


def cells_of(rows: Sequence[Row], rivals: Sequence[str] = RIVALS) -> list[Cell]:
    """One cell per set, length and recall in which we and a rival were measured."""
    cells = []
    for value in VALUES:
        found = measurements(rows, value, ("set", "n_bits", "model"), fixed=draws_nothing)
        for place in dict.fromkeys(key[:2] for key in found if key[2] == DEFAULT):
            ours = found[*place, DEFAULT]
            others = {r: found[*place, r] for r in rivals if (*place, r) in found}
            if not others:
                continue
            leads = {r: lead(ours, other, least=LEAST_RECALL) for r, other in others.items()}
            # The rival that decides: of those we stand worst to, the one that finds most.
            worst = min(others, key=lambda r: (leads[r], -others[r].seeds.mean))
            means = ours.seeds.mean, others[worst].seeds.mean
            cells.append(Cell(*place, value, worst, *means, leads[worst]))
    return cells


def told(cells: Sequence[Cell]) -> list[str]:
    """Every cell that we are not ahead in, the counts, and their targets."""
    names = {-1: "behind", 0: "within noise"}
    lines = [f"  {names[cell.lead]:<13} {cell}" for cell in cells if cell.lead < 1]
    ahead, behind = (sum(cell.lead == sign for cell in cells) for sign in (1, -1))
    lines.append(
        f"{len(cells)} cells: ahead in {ahead}, within noise in {len(cells) - ahead - behind}, "
        f"behind in {behind} (noise: the 95 % interval over seeds and queries, at least "
        f"{LEAST_RECALL}; fewer than three seeds of a method that draws are within it)"
    )
    if cells:
        lines.append(line(f"{DEFAULT}: cells behind a rival", behind, at_most(0)))
        share = ahead / len(cells)
        lines.append(line(f"{DEFAULT}: share of cells ahead of all", share, AHEAD_SHARE))
    return lines
