"""How long the tutorials take whoever follows them: every block of a page, run as it stands.

    python tools/clock_pages.py [PAGE ...]

Each page is followed in a folder and a process of its own; blocks of `sh` go to a shell that finds
this installation's `sghash`, a process for each. Printed are seconds by the clock, reading not
included, with what is compiled at a first use where no cache holds it yet.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (
    "i-have-embeddings", "i-have-images", "i-do-research", "i-run-a-database", "how-accurate",
    "scale",
)  # fmt: skip
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def follow(page: str) -> None:
    """Run all blocks of a page here, one after the other."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    names: dict[str, Any] = {}
    for language, text in _BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(text, f"{page}.md", "exec"), names)
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, env=environment)


def main() -> None:
    """Follow every page and print its seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=PAGES, metavar="PAGE")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        follow(options.follow)
        return
    for page in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            done = subprocess.run(
                [sys.executable, __file__, "--follow", page], cwd=folder, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            seconds = time.perf_counter() - began
        print(f"{page:20}{seconds:6.0f} s", flush=True)
        if done.returncode:
            sys.exit(f"{page} stopped:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
