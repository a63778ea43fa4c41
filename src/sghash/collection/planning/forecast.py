"""What so many vectors will take, before they are there: bytes, minutes, milliseconds.

Bytes are counted. Times grow as they were measured on one core (`benchmarks/forecast.py` prints
them beside those of today): learning does not grow with the rows, adding and making lists grow with
them, and a query with their root. Another machine is faster or slower by a factor; the order of the
lines stays.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from sghash.collection.lists.building import AUTO_ROWS
from sghash.collection.planning.pipelines import bytes_of
from sghash.errors import InvalidInput
from sghash.index.lists.arranged import ROWS
from sghash.index.lists.centroids import default_lists
from sghash.validation import check_count

#: Of a row: the code that a build usually takes (256 bits), its id, and its place in its list.
CODE_BYTES, ID_BYTES, PLACE_BYTES = 32, 8, 4
#: Kind of kept vectors -> the recall of 10 that they were measured to allow, lowest and highest of
#: the sets: which of them it will be, only the vectors know.
CEILINGS = {"int4": (0.9, 0.97), "int8": (0.985, 0.998), "float16": (0.999, 1.0)}

# Seconds of one core: to try and to learn, and per column; to add a row, and per column of it; to
# measure lists; to put a row into one, per column and list compared.
LEARN, LEARN_COLUMN = 3.0, 0.015
ADD, ADD_COLUMN = 4e-6, 2.5e-8
MEASURE, LISTED = 12.0, 5.8e-10
# Microseconds of a query: of any; per root of the rows, and per byte of a row and root.
QUERY, QUERY_ROOT, QUERY_BYTE = 60.0, 0.1, 0.0012
# Bytes that one core reads in a microsecond when it compares vectors, and rows of a graph.
SCAN_BYTES = 9000.0
GRAPH_LINKS = 64
GRAPH_BUILD, GRAPH_BUILD_COLUMN = 2.2e-4, 1.3e-6
GRAPH_QUERY, GRAPH_QUERY_COLUMN = 60.0, 0.45
# The slower, the closer to all of the neighbours.
_EFFORT = {0.9: 0.6, 0.95: 1.0, 0.99: 2.0}


class Forecast(NamedTuple):
    """One way to keep the vectors and to search them."""

    name: str
    recall: tuple[float, float]
    memory_bytes: float
    disk_bytes: float
    build_minutes: float
    milliseconds: float


def forecast(n_rows: int, width: int, target_recall: float) -> list[Forecast]:
    """Collections by what they keep, then what people use instead."""
    check_count(n_rows, name="rows")
    check_count(width, name="dims")
    if not 0 < target_recall <= 1:
        raise InvalidInput(f"target_recall must lie above 0 and be at most 1, got {target_recall}")
    lines = [_collection(n_rows, width, kind, target_recall) for kind in CEILINGS]
    for name, size in (("float32, every row compared", 4), ("float16, every row compared", 2)):
        n_bytes = float(n_rows * width * size)
        lines.append(Forecast(name, (1.0, 1.0), n_bytes, n_bytes, 0.0, n_bytes / SCAN_BYTES / 1e3))
    graph = float(n_rows * (4 * width + 4 * GRAPH_LINKS + 8))
    steps = math.log2(max(2, n_rows))
    build = n_rows * (GRAPH_BUILD + GRAPH_BUILD_COLUMN * width) * steps / 16 / 60
    query = (GRAPH_QUERY + GRAPH_QUERY_COLUMN * width) * steps / 16 * effort(target_recall)
    lines.append(Forecast("HNSW over float32", (0.9, 0.999), graph, graph, build, query / 1e3))
    return lines


def _collection(n: int, width: int, kind: str, target: float) -> Forecast:
    row = CODE_BYTES + bytes_of(width, kind) + ID_BYTES
    lists = math.sqrt(n) if n >= AUTO_ROWS else 0.0
    n_bytes = float(n * row)
    if lists:
        # A code stands in its list once more, and the last block of a list is half full.
        place = CODE_BYTES + PLACE_BYTES
        n_bytes += n * place + default_lists(n) * (2 * width + 16 + ROWS / 2 * place)
    compared = min(lists, 4 * math.sqrt(max(1.0, lists)) * 8) if lists > 4096 else lists
    seconds = LEARN + LEARN_COLUMN * width + n * (ADD + ADD_COLUMN * width)
    if lists:
        seconds += MEASURE + n * compared * width * LISTED
    visited = math.sqrt(n) if lists else n / math.sqrt(AUTO_ROWS)
    spent = QUERY + visited * (QUERY_ROOT + QUERY_BYTE * row) * effort(target)
    name = f"sghash, {kind} vectors"
    return Forecast(name, CEILINGS[kind], n_bytes, n_bytes, seconds / 60, spent / 1e3)


def effort(target: float) -> float:
    """How much longer a search for this recall takes than one for 0.95."""
    points = sorted(_EFFORT.items())
    if target <= points[0][0]:
        return points[0][1]
    for (low, at_low), (high, at_high) in pairwise(points):
        if target <= high:
            return at_low + (at_high - at_low) * (target - low) / (high - low)
    return points[-1][1] * 2


def advised(lines: list[Forecast], target: float) -> str:
    """Which line is likely to be chosen, in a sentence."""
    sure = next(line for line in lines if line.recall[0] >= min(target, 0.999))
    maybe = next(line for line in lines if line.recall[1] >= min(target, 0.999))
    if maybe == sure:
        return f"{sure.name} will reach {target:g}"
    return f"{maybe.name} may reach {target:g}, {sure.name} will: the vectors decide"
