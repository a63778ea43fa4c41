"""Rows that are never stored: made block by block, searched block by block, gone on with later."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sghash.experiments.experiment import Context
from sghash.files import write_atomically
from sghash.kernels import exact_neighbors, hamming_neighbors
from sghash.models.base import BinaryHasher
from sghash.neighbors import Neighbors
from sghash.validation import Vectors

#: Perturbation: each bin x gets noise of standard deviation SCALE * sqrt(x + 1).
SCALE = 2.0
NEIGHBORS, DEPTH = 10, 1000
#: Seconds between two writings of what was found so far, and between two lines about it.
KEEP_SECONDS, SAY_SECONDS = 300.0, 30.0
_PART_ROWS = 4096
# By value of a bin.
_DEVIATIONS = (SCALE * np.sqrt(np.arange(256) + 1)).astype(np.float32)


class PerturbedStream:
    """Rows made when they are wanted: a base row drawn at random, with noise like a new photo's.

    Block b is always the same: its generator is seeded by (seed, b). Bins of histograms vary by
    the square root of their counts, are whole numbers and lie between 0 and 255; so do these.
    """

    def __init__(self, base: Any, n_rows: int, block_rows: int, seed: int = 0) -> None:
        self.base, self.n_rows, self.block_rows, self.seed = base, n_rows, block_rows, seed
        self.is_histogram = base.dtype == np.uint8
        self.spread: Vectors = np.std(base, axis=0, dtype=np.float32)

    def blocks(self, first: int = 0) -> Iterator[tuple[int, Vectors]]:
        """Yield (first row, rows float32) from block `first` on; the next is made meanwhile."""
        n_blocks = -(-self.n_rows // self.block_rows)
        if first >= n_blocks:
            return
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(self.block, first)
            for number in range(first, n_blocks):
                rows = following.result()
                if number + 1 < n_blocks:
                    following = pool.submit(self.block, number + 1)
                yield number * self.block_rows, rows

    def block(self, number: int) -> Vectors:
        """Rows of one block, float32."""
        first = number * self.block_rows
        n = min(self.block_rows, self.n_rows - first)
        rng = np.random.Generator(np.random.SFC64([self.seed, number]))
        chosen = rng.integers(len(self.base), size=n)
        rows: Vectors = np.empty((n, self.base.shape[1]), dtype=np.float32)
        # Parts that stay in the cache: the arithmetic is cheap, the memory is not.
        for start in range(0, n, _PART_ROWS):
            drawn = self.base[chosen[start : start + _PART_ROWS]]
            part = rows[start : start + len(drawn)]
            rng.standard_normal(out=part, dtype=np.float32)
            part *= _DEVIATIONS[drawn] if self.is_histogram else np.float32(0.3) * self.spread
            part += drawn
            if self.is_histogram:
                np.rint(part, out=part)
                np.clip(part, 0, 255, out=part)
        return rows


@dataclass
class Found:
    """What the first `n_blocks` blocks hold: true neighbours, and nearest codes by model."""

    n_blocks: int = 0
    truth: Neighbors | None = None
    codes: dict[str, Neighbors] = field(default_factory=dict)

    def save(self, path: Path, asked: Mapping[str, Any]) -> None:
        """Write all of it to `path`, with what was `asked` for, so that nothing else goes on."""
        names = list(self.codes)
        head = {"asked": asked, "n_blocks": self.n_blocks, "models": names}
        assert self.truth is not None  # there is at least one block
        arrays: dict[str, Any] = {"head": np.array(json.dumps(head, sort_keys=True))}
        for place, near in enumerate([self.truth, *self.codes.values()]):
            arrays[f"distances{place}"], arrays[f"ids{place}"] = near.distances, near.ids

        def write(stream: BinaryIO) -> None:
            np.savez(stream, **arrays)

        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)

    @classmethod
    def load(cls, path: Path, asked: Mapping[str, Any]) -> Found:
        """What `save` wrote for the same question; else nothing found yet."""
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                head = json.loads(str(file["head"]))
                if head["asked"] != json.loads(json.dumps(asked)):
                    return cls()
                near = [
                    Neighbors(file[f"distances{place}"], file[f"ids{place}"])
                    for place in range(1 + len(head["models"]))
                ]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return cls()
        codes = dict(zip(head["models"], near[1:], strict=True))
        return cls(int(head["n_blocks"]), near[0], codes)


def search_stream(
    context: Context,
    stream: PerturbedStream,
    queries: Vectors,
    models: Mapping[str, BinaryHasher],
    *,
    kept: Path | None = None,
    keep_seconds: float = KEEP_SECONDS,
) -> Found:
    """The true neighbours, and the nearest codes of every model by name, over all blocks.

    Memory holds two blocks and the nearest of every query. What is found is written to the file
    `kept` now and then: a search by the same models goes on from there.
    """
    asked = {
        "models": {name: model.fingerprint_ for name, model in models.items()},
        "stream": [stream.n_rows, stream.block_rows, stream.seed, *stream.base.shape],
        "n_queries": len(queries),
    }
    found = Found() if kept is None else Found.load(kept, asked)
    query_codes = {name: model.encode(queries) for name, model in models.items()}
    began = said = written = time.perf_counter()
    before = found.n_blocks * stream.block_rows
    if before:
        context.say(f"  going on after {before:,} of {stream.n_rows:,} rows")
    for first, rows in stream.blocks(found.n_blocks):
        near = exact_neighbors(rows, queries, NEIGHBORS, threads=context.threads)
        found.truth = _joined(found.truth, near, first, NEIGHBORS)
        for name, model in models.items():
            near = hamming_neighbors(
                model.encode(rows), query_codes[name], DEPTH, n_bits=model.code_bits,
                threads=context.threads,
            )  # fmt: skip
            found.codes[name] = _joined(found.codes.get(name), near, first, DEPTH)
        found.n_blocks += 1
        now, done = time.perf_counter(), first + len(rows)
        if now - said > SAY_SECONDS:
            said = now
            left = (now - began) / (done - before) * (stream.n_rows - done)
            context.say(f"  {done:,} of {stream.n_rows:,} rows, about {left:.0f} s left")
        if kept is not None and now - written >= keep_seconds:
            found.save(kept, asked)
            written = time.perf_counter()
    return found


def _joined(before: Neighbors | None, here: Neighbors, first: int, k: int) -> Neighbors:
    """The best k of what earlier blocks hold and of what the block from row `first` on holds.

    Later rows have larger ids, so a stable sort of two sorted lists orders ties as they should be,
    in a fraction of the time that sorting by both takes.
    """
    shifted = Neighbors(here.distances, np.where(here.ids < 0, here.ids, here.ids + first))
    if before is None:
        return shifted
    distances = np.concatenate([before.distances, shifted.distances], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    ids = np.concatenate([before.ids, shifted.ids], axis=1)
    return Neighbors(
        np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
    )
