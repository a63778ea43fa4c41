"""Every byte of every file of a small collection of every kind, changed one at a time.

    python tests/stress/flips.py [STEP]      prints counts; STEP 10 changes every tenth byte

After each change the collection is opened, verified and read in full: it is told, or everything in
it is as it was.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from sghash import SghashError

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_collections import make_collections, rows_of

GOLDEN = Path(__file__).parents[1] / "golden"


def run(step=1):
    """Flip one bit of every `step`-th byte; return counts by kind of file and outcome."""
    counts = Counter()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        paths = make_collections(Path(name))
        for golden in sorted(GOLDEN.glob("collection-v*")):
            paths.append(Path(shutil.copytree(golden, Path(name) / golden.name)))
        for folder in paths:
            expected = rows_of(folder)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                original = path.read_bytes()
                kind = path.name.split("-")[0]
                for place in range(0, len(original), step):
                    changed = bytearray(original)
                    changed[place] ^= 1 << place % 8
                    path.write_bytes(changed)
                    counts[kind, _outcome(folder, expected, path, place)] += 1
                path.write_bytes(original)
            assert rows_of(folder) == expected
    return counts


def _outcome(folder, expected, path, place):
    try:
        same = rows_of(folder) == expected
    except SghashError:
        return "told"
    assert same, f"byte {place} of {path} was changed and nobody noticed"
    return "harmless"


if __name__ == "__main__":
    for (kind, outcome), count in sorted(run(int(sys.argv[1]) if sys.argv[1:] else 1).items()):
        print(f"{kind:20s} {outcome:10s} {count:8d}")
