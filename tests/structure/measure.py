"""Measure the house: `python tests/structure/measure.py [--src OTHER/src]`.

Prints a table for the source tree of this checkout, beside another one if `--src` names it: how
many files five walks enter, code that stands twice, folders, options, names, private names used
elsewhere, long files and functions. `--verbose` lists the places behind the numbers. Before and
after a change, the two columns say whether it made the house simpler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from duplicates import LIKENESS, STATEMENTS, alike, copies
from private_names import private_uses
from sizes import FILE_LIMIT, FOLDER_LIMIT, FUNCTION_LIMIT, above, files, folders, functions

HERE = Path(__file__).resolve().parent
OWN = HERE.parent.parent / "src"
# Row of the table -> its number, and the places behind it.
Measures = dict[str, tuple[int, list[str]]]


def main(arguments: list[str] | None = None) -> None:
    """Measure one or two trees and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--src", type=Path, help="another source tree, to stand beside this one")
    parser.add_argument("--verbose", action="store_true", help="list the places behind the numbers")
    given = parser.parse_args(arguments)
    trees = {"here": OWN} | ({"there": given.src.resolve()} if given.src else {})
    measures = {name: measure(src) for name, src in trees.items()}
    print("\n".join(table(measures)))
    if given.verbose:
        for name, found in measures.items():
            print("\n".join(places(name, found)))


def measure(src: Path) -> Measures:
    """Every number of one tree."""
    facts = walked(src)
    twice, like = copies(src), alike(src)
    long_files, long_functions = (
        above(files(src), FILE_LIMIT),
        above(functions(src), FUNCTION_LIMIT),
    )
    crowded, uses = above(folders(src), FOLDER_LIMIT), private_uses(src)
    most = max(facts["options"], key=facts["options"].get)
    rows: Measures = {
        f"files entered by: {name}": (len(found), found) for name, found in facts["walks"].items()
    }
    return rows | {
        f"pairs of equal code ({STATEMENTS} statements or more)": (len(twice), [*map(str, twice)]),
        f"pairs of functions alike by {LIKENESS:.0%}": (len(like), [*map(str, like)]),
        "files in the largest folder": (folders(src)[0].size, [folders(src)[0].where]),
        f"folders of more than {FOLDER_LIMIT} files": _listed(crowded),
        "options of SGH": (facts["options"]["SGH"], []),
        "options of the estimator with most": (facts["options"][most], [most]),
        "names in sghash": (facts["names"], []),
        "private names used in other files": (len(uses), uses),
        f"files of more than {FILE_LIMIT} lines": _listed(long_files),
        f"functions of more than {FUNCTION_LIMIT} lines": _listed(long_functions),
        "files": (len(files(src)), []),
        "lines": (sum(place.size for place in files(src)), []),
    }


def walked(src: Path) -> dict[str, Any]:
    """What `walks.py` finds in a process that imports the package from `src`."""
    environment = {**os.environ, "PYTHONPATH": str(src)}
    command = [sys.executable, str(HERE / "walks.py")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def table(measures: dict[str, Measures]) -> list[str]:
    """One line per number, one column per tree."""
    names = list(dict.fromkeys(row for found in measures.values() for row in found))
    width = max(map(len, names))
    lines = [" " * width + "".join(f"{tree:>8}" for tree in measures)]
    for name in names:
        cells = [found[name][0] if name in found else "" for found in measures.values()]
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>8}" for cell in cells))
    return lines


def places(tree: str, found: Measures) -> list[str]:
    """The places behind the numbers of a tree."""
    lines = []
    for name, (number, listed) in found.items():
        if listed:
            lines += ["", f"{tree}: {name}: {number}", *(f"  {place}" for place in listed)]
    return lines


def _listed(found: list[Any]) -> tuple[int, list[str]]:
    return len(found), [f"{place.where}: {place.size}" for place in found]


if __name__ == "__main__":
    main()
