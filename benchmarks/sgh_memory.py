"""Anonymous memory of a fit on a memory-mapped file far larger than it.

    python benchmarks/sgh_memory.py [--gigabytes 8] [--folder .]

Generates the file (removed afterwards), fits on its map in a fresh process, and watches RssAnon:
memory that belongs to the process, without the pages of the file that the system keeps for it.
Linux only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

TARGET = 1.0
WIDTH = 128


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell RssAnon")


def generate(path: Path, gigabytes: float) -> None:
    """Write float32 vectors with structure: noisy sums of random directions."""
    n = int(gigabytes * 1e9 / (4 * WIDTH))
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((24, WIDTH), dtype=np.float32)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, WIDTH))
    for start in range(0, n, 100_000):
        m = min(100_000, n - start)
        signs = np.sign(rng.standard_normal((m, 24), dtype=np.float32))
        noise = rng.standard_normal((m, WIDTH), dtype=np.float32)
        array[start : start + m] = signs @ parts + noise
    array.flush()


def fit(path: Path) -> None:
    from sghash import SGH

    vectors = np.load(path, mmap_mode="r")
    before, peak, done = anonymous_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    model = SGH(n_bits=64, random_state=0).fit(vectors)
    seconds = time.perf_counter() - start
    codes = model.encode(vectors[:1_000_000])
    done.set()
    watcher.join()
    error = model.reconstruction_error(np.asarray(vectors[:2000]))
    print(
        f"fit on {vectors.nbytes / 1e9:.1f} GB ({vectors.shape[0]} x {WIDTH}): {seconds:.1f} s, "
        f"error {error:.1f} (variance {float(np.var(vectors[:2000], axis=0).sum()):.1f}), "
        f"{len(codes)} codes encoded"
    )
    highest = peak[0] / 1e9
    verdict = "met" if highest < TARGET else "MISSED"
    print(
        f"RssAnon: {before / 1e9:.2f} GB before, {highest:.2f} GB at its highest, "
        f"target < {TARGET:g} GB: {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--fit", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(options.fit)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "vectors.npy"
        generate(path, options.gigabytes)
        subprocess.run([sys.executable, __file__, "--fit", str(path)], check=True)


if __name__ == "__main__":
    main()
