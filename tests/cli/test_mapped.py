"""Codes are computed in blocks that are small on the side of the vectors, too."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import sghash
from sghash.cli.mapped import MappedRows


class Recorded:
    """Rows of a wide source that are made when they are read, and a record of the reads."""

    shape, dtype = (100_000, 4096), np.dtype(np.float32)

    def __init__(self):
        self.reads = []

    def read(self, start, stop):
        self.reads.append((start, stop))
        return np.broadcast_to(np.arange(start, stop, dtype=np.float32)[:, None], (stop - start, 4))


def test_a_large_read_becomes_small_ones_and_progress_is_told():
    source, told = Recorded(), []
    mapped = MappedRows(source, lambda block: (block[:, :1] % 251).astype(np.uint8), 1, np.uint8)
    mapped.callback = lambda *state: told.append(state)
    made = mapped.read(10, 100_000)
    np.testing.assert_array_equal(made[:, 0], np.arange(10, 100_000) % 251)
    assert max(stop - start for start, stop in source.reads) == 1024  # 16 MiB of 4,096 numbers
    assert told[-1] == (100_000, 100_000) and len(told) == len(source.reads)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux for the size")
def test_files_beyond_memory(tmp_path):
    """1.2 GB as float32 go through encode and create in less than half of that."""
    shape = (1_200_000, 256)
    np.lib.format.open_memmap(tmp_path / "big.npy", mode="w+", dtype=np.uint8, shape=shape).flush()
    model = sghash.models.LSH(n_bits=64, random_state=0).fit(np.eye(256, dtype=np.float32))
    model.save(tmp_path / "model")
    program = (
        "import sys\nfrom sghash.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        # Not what getrusage says, which begins with the size of the process that forked this one.
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith('VmHWM')))"
    )
    for line in ("encode model big.npy codes.npy", "create shelf big.npy --fitted model"):
        done = subprocess.run(
            [sys.executable, "-c", program, *line.split()],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        assert int(done.stdout.split()[-1]) < 600, done.stdout
