"""A figure beside its target, as one line: met, or missed by how much."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A bound that a figure is held to; `is_most` tells from which side."""

    bound: float
    is_most: bool

    def missed_by(self, value: float) -> float:
        """How far `value` lies beyond the bound; 0 if the target is met."""
        return max(0.0, value - self.bound if self.is_most else self.bound - value)

    def __str__(self) -> str:
        return f"{'<=' if self.is_most else '>='} {self.bound:g}"


def at_most(bound: float) -> Target:
    return Target(bound, True)


def at_least(bound: float) -> Target:
    return Target(bound, False)


def verdict(value: float, target: Target, *, noise: float = 0.0) -> str:
    """ "met", or "MISSED by ..."; beyond `noise` only, where that is asked for."""
    missed = target.missed_by(value)
    if missed <= noise:
        return "met" if missed == 0 else f"met within noise ({missed:.3g} beyond)"
    return f"MISSED by {missed:.3g}"


def line(what: str, value: float, target: Target, *, unit: str = "", noise: float = 0.0) -> str:
    """One line of a report: what, its value, the target, the verdict."""
    told = f"± {noise:.3f} " if noise else ""
    return (
        f"{what:<58} {value:8.3f}{unit} {told}  target {target}{unit}: "
        f"{verdict(value, target, noise=noise)}"
    )
