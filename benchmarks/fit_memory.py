"""Memory of a fit on a folder of Parquet files far larger than it.

    python benchmarks/fit_memory.py [--gigabytes 8] [--folder .]

Writes vectors of 128 to Parquet files (removed afterwards), fits `SGH` on them in a new process, as
`SGH(64).fit(sghash.open_vectors(folder))`, and prints the most that the process had resident, with
and without pages of files. Linux only.
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
import pyarrow as pa
import pyarrow.parquet as pq
from measuring.verdicts import at_most, line

TARGET = at_most(1.5)
WIDTH, FILE_ROWS = 128, 500_000


def status(name: str) -> float:
    """A line of the process's memory, in gigabytes."""
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith(name):
            return int(text.split()[1]) * 1024 / 1e9
    raise RuntimeError(f"this system does not tell {name}")


def generate(folder: Path, gigabytes: float) -> None:
    """Write float32 vectors with structure: noisy sums of random directions."""
    n = int(gigabytes * 1e9 / (4 * WIDTH))
    parts = np.random.default_rng(0).standard_normal((24, WIDTH), dtype=np.float32)
    for number, start in enumerate(range(0, n, FILE_ROWS)):
        rng, m = np.random.default_rng([1, number]), min(FILE_ROWS, n - start)
        signs = np.sign(rng.standard_normal((m, 24), dtype=np.float32))
        rows = signs @ parts + rng.standard_normal((m, WIDTH), dtype=np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), WIDTH)
        path = folder / f"part-{number:05d}.parquet"
        table = pa.table({"vectors": column})
        pq.write_table(table, path, compression="none", use_dictionary=False)


def fit(folder: Path) -> None:
    import sghash

    own, done = [status("RssAnon")], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            own[0] = max(own[0], status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, cpu = time.perf_counter(), time.process_time()
    vectors = sghash.open_vectors(folder)
    model = sghash.SGH(64, random_state=0).fit(vectors)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    done.set()
    watcher.join()
    size = vectors.shape[0] * WIDTH * 4 / 1e9
    error = model.reconstruction_error(vectors.read(0, 2000))
    print(
        f"fit on {size:.1f} GB of Parquet ({vectors.shape[0]:,} x {WIDTH}): {seconds:.1f} s "
        f"({cpu:.1f} s of processor time), error {error:.1f}"
    )
    print(line("gigabytes resident at most", status("VmHWM"), TARGET))
    print(line("the same without pages of files", own[0], TARGET))


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
        generate(Path(folder), options.gigabytes)
        subprocess.run([sys.executable, __file__, "--fit", folder], check=True)


if __name__ == "__main__":
    main()
