"""What a search over lists did, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from sghash.neighbors import Neighbors

#: Stages of a search, in their order.
STAGES = ("lists", "tables", "scan", "scores by tables", "distances")


@dataclass(frozen=True)
class Explanation:
    """The answer to one query, what was visited, and microseconds by stage.

    `expected_recall` is what the setting found on the held-out sample; None where no target was
    given.
    """

    neighbors: Neighbors
    lists_visited: int
    n_lists: int
    rows_scanned: int
    n_rows: int
    rows_shortlisted: int
    rows_scored: int
    microseconds: dict[str, float]
    expected_recall: float | None

    def __str__(self) -> str:
        lines = [
            f"lists visited: {self.lists_visited:,} of {self.n_lists:,}",
            f"codes scanned: {self.rows_scanned:,} of {self.n_rows:,}",
            f"rows on the shortlist: {self.rows_shortlisted:,}",
            f"rows that decided: {self.rows_scored:,}",
        ]
        lines += [
            f"{stage}: {spent:.1f} microseconds" for stage, spent in self.microseconds.items()
        ]
        if self.expected_recall is not None:
            lines.append(f"recall expected: {self.expected_recall:.3f}")
        return "\n".join(lines)
