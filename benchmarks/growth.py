"""How the processor time of a fit grows with the rows, the columns and the bits.

    python benchmarks/growth.py [--folder /tmp] [--axes rows columns bits]
    python benchmarks/growth.py --quick

Rows are read from a memory-mapped .npy file in a temporary folder, which is removed afterwards:
clusters stretched along a few directions, float32, or uint8 by --uint8. One core, one thread, one
fit per cell after a short one that compiles. The exponent is the slope of log seconds over log
size in the upper half of the sizes: 0 is a time that no longer grows, 1 is linear. A cell that
would need more memory than the machine has left, or that comes after a fit of more than
--seconds, is left out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.fits import on_threads, timed_fit
from measuring.splits import Split

from sghash.experiments.hashing import known_models, make_model

MODELS = ("ITQ", "SGH", "SGH(neighbors=10)", "SGH(neighbors=10, hidden=256)")
USUAL_ROWS, USUAL_COLUMNS, USUAL_BITS = 100_000, 64, 32
AXES = {
    "rows": [10**3, 10**4, 10**5, 10**6, 10**7],
    "columns": [64, 128, 256, 512, 1024, 2048, 4096],
    "bits": [16, 32, 64, 128, 256, 512, 1024],
}
QUICK_AXES = {"rows": [500, 1000, 2000, 4000], "columns": [16, 32, 64], "bits": [8, 16, 32]}
#: Columns while the bits grow, and rows while the columns grow.
WIDE, FEWER_ROWS = 256, 20_000
CLUSTERS, DIRECTIONS, BLOCK = 50, 16, 100_000


class Cell(NamedTuple):
    """The size of one fit."""

    rows: int
    columns: int
    bits: int


def cells_of(axis: str, sizes: Sequence[int], *, quick: bool = False) -> list[Cell]:
    """One cell per size along an axis, the other two at their usual values."""
    if axis == "rows":
        return [Cell(n, USUAL_COLUMNS, USUAL_BITS) for n in sizes]
    n = 2000 if quick else FEWER_ROWS if axis == "columns" else USUAL_ROWS
    if axis == "columns":
        return [Cell(n, width, USUAL_BITS) for width in sizes]
    return [Cell(n, WIDE, n_bits) for n_bits in sizes]


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Slope of log time over log size in the upper half of the sizes, two at least."""
    n = max(2, math.ceil(len(sizes) / 2))
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes[-n:]), np.log(times[-n:]), 1)[0])


def generate(path: Path, n: int, width: int, *, as_bytes: bool) -> None:
    """Write rows of clusters, each stretched along directions of its own, block by block."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((CLUSTERS, width), dtype=np.float32)
    spreads = rng.standard_normal((CLUSTERS, DIRECTIONS, width), dtype=np.float32) / 4
    kind: Any = np.uint8 if as_bytes else np.float32
    array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(n, width))
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        rows = 0.1 * rng.standard_normal((m, width), dtype=np.float32)
        labels = rng.integers(CLUSTERS, size=m)
        for label in range(CLUSTERS):
            here = np.flatnonzero(labels == label)
            latent = rng.standard_normal((len(here), DIRECTIONS), dtype=np.float32)
            rows[here] += centers[label] + latent @ spreads[label]
        array[first : first + m] = np.clip(128 + 24 * rows, 0, 255) if as_bytes else rows
    array.flush()


def memory_left() -> float:
    """Bytes that this machine can still give; infinite where it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    found = [text for text in lines if text.startswith("MemAvailable")]
    return int(found[0].split()[1]) * 1024 if found else math.inf


def needed(cell: Cell) -> int:
    """Bytes of float32 that a method which holds all rows may take: rows, a copy, components."""
    return 4 * cell.rows * (2 * cell.columns + 2 * cell.bits)


def measured(folder: Path, model: str, cell: Cell, options: argparse.Namespace) -> float | str:
    """Seconds of one fit, or why it is left out."""
    # SGH reads a sample of what it is given; ITQ holds all rows.
    if model == "ITQ" and needed(cell) > 0.7 * memory_left():
        return "memory"
    path = folder / f"{cell.rows}x{cell.columns}.npy"
    if not path.exists():
        for old in folder.glob("*.npy"):
            old.unlink()
        generate(path, cell.rows, cell.columns, as_bytes=options.uint8)
    vectors = np.load(path, mmap_mode="r")
    split = Split(vectors, np.empty((0, cell.columns), np.float32), "l2", {})
    seconds: float = timed_fit(make_model(model, cell.bits, 0, "l2"), split)["cpu_seconds"]
    return seconds


def along(folder: Path, axis: str, options: argparse.Namespace, models: Sequence[str]) -> None:
    """Print a line per model: seconds by size, and the exponent."""
    sizes = (QUICK_AXES if options.quick else AXES)[axis]
    cells = cells_of(axis, sizes, quick=options.quick)
    usual = {name: value for name, value in cells[0]._asdict().items() if name != axis}
    print(f"{axis}, at " + ", ".join(f"{value:,} {name}" for name, value in usual.items()))
    print(f"  {'':<32}" + "".join(f"{size:>11,}" for size in sizes) + "   exponent")
    told: dict[str, list[str]] = {model: [] for model in models}
    times: dict[str, list[tuple[int, float]]] = {model: [] for model in models}
    for size, cell in zip(sizes, cells, strict=True):
        for model in models:
            if times[model] and times[model][-1][1] > options.seconds:
                found: float | str = "too long"
            else:
                found = measured(folder, model, cell, options)
            if isinstance(found, float):
                times[model].append((size, found))
            told[model].append(found if isinstance(found, str) else f"{found:.2f}")
    for model in models:
        slope = exponent(*zip(*times[model], strict=True)) if times[model] else math.nan
        cells_told = "".join(f"{text:>11}" for text in told[model])
        print(f"  {model:<32}{cells_told}   {slope:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--uint8", action="store_true", help="bytes in the place of float32")
    parser.add_argument("--seconds", type=float, default=300.0, help="no longer fits than this")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    options = parser.parse_args()
    models = known_models(options.models)
    if left_out := set(options.models) - set(models):
        print(f"this version has no {', '.join(sorted(left_out))}: left out")
    print("processor seconds of a fit, one thread")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, on_threads(1):
        for axis in options.axes:
            along(Path(folder), axis, options, models)


if __name__ == "__main__":
    main()
