"""A program: one collection and a number of events that happen to it, all drawn from one seed."""

from __future__ import annotations

import marshal
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import crashes
import damage
import drawing
import numpy as np
import operations
import ownership
import sharing
import trouble
from checking import check_folder
from pool import KEPT, METRICS, pool
from reference import Fault, Reference, Worlds
from session import pack, unpack
from twins import has_tables

from sghash import Collection

EVENTS = 24
# How often each kind of event happens.
KINDS = {
    crashes.killed: 60, crashes.stopped: 15, crashes.killed_creating: 4, crashes.killed_copying: 4,
    crashes.killed_dividing: 3,
    trouble.errors: 4, trouble.interrupts: 4, trouble.plain: 3, trouble.creating: 2,
    sharing.readers: 5, sharing.threads: 5, ownership.forked: 3, ownership.moved: 2,
    ownership.second_writer: 2, ownership.contention: 2, ownership.race: 3, damage.flipped: 10,
}  # fmt: skip


class Program:
    """`folder` holds the collection, `root` all that belongs to the program."""

    def __init__(self, seed, *, kinds=None, verbose=False):
        self.seed, self.verbose = seed, verbose
        self.counts, self.kinds = Counter(), kinds or KINDS
        rng = np.random.default_rng([seed])
        keep = KEPT[rng.choice(5, p=[0.2, 0.2, 0.4, 0.1, 0.1])]
        metric = METRICS[rng.choice(3, p=[0.6, 0.2, 0.2])]
        self.root = Path(tempfile.mkdtemp(prefix=f"sghash-stress-{seed}-", dir=_place(rng)))
        self.folder, self.stderr = self.root / "c", self.root / "stderr"
        self.worlds = Worlds([Reference(keep, metric, int(rng.integers(len(pool().models))))])
        self.number, self.event, self.before = 0, "create", None
        kind = "tables" if has_tables(pool().models[self.worlds.states[0].model]) else "bits"
        self.counts[f"programs that begin with {kind}"] += 1

    def run(self, n=EVENTS):
        """Let n events happen; raise `Fault` at the first thing that is wrong."""
        self._create(np.random.default_rng([self.seed, 0]))
        while self.counts["events"] < n and self.number < 3 * n:
            self.step(self.number + 1)

    def step(self, number):
        """Event number `number`, which depends on the seed and the collection only."""
        self.number = number
        rng = np.random.default_rng([self.seed, number])
        names = list(self.kinds)
        shares = np.asarray([self.kinds[name] for name in names], dtype=float)
        kind = names[rng.choice(len(names), p=shares / shares.sum())]
        self.event = f"{number} {kind.__name__}"
        if self.verbose:
            print(f"  event {self.event}", flush=True)
        self.before = pack(self.worlds.states[0])
        shutil.rmtree(self.root / "before", ignore_errors=True)
        shutil.copytree(self.folder, self.root / "before")
        kind(self, rng)
        check_folder(self.folder, self.worlds)
        self.counts["checks in full"] += 1

    def keep(self, place):
        """Keep what is needed to repeat the last event: the collection before it, and after it."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in ("before", "c"):
            if (self.root / name).exists():
                shutil.copytree(self.root / name, place / name)
        (place / "event").write_bytes(marshal.dumps((self.seed, self.number, self.before)))

    def resume(self, place):
        """Repeat an event that was kept."""
        shutil.copytree(place / "before", self.folder)
        _, number, before = marshal.loads((place / "event").read_bytes())
        self.worlds = Worlds([unpack(before)])
        self.step(number)

    def close(self):
        """Remove all files."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _create(self, rng):
        state = self.worlds.states[0]
        model = pool().models[state.model]
        # Half of the programs have lists, of rows as few as there are.
        able = state.keep is not None or model.capabilities.tables
        lists = int(rng.integers(1, 9)) if able and rng.random() < 0.5 else None
        self.counts["programs with lists"] += lists is not None
        with Collection.create(
            self.folder, model, keep_vectors=state.keep, metric=state.metric, partitions=lists
        ) as collection:
            op = drawing.first_change(rng)
            self.worlds.begin(op)
            self.worlds.done(operations.change(collection, op))
        check_folder(self.folder, self.worlds)

    def count(self, kind, n=1):
        """Count n events of one kind."""
        self.counts[kind] += n
        self.counts["events"] += n

    def follow(self, messages):
        """Learn from what a writer told which worlds there may be now."""
        for message in messages:
            word = message[0]
            if word == "begin":
                self.worlds.begin(message[1])
                self.counts[f"operation {message[1]['name']}"] += 1
            elif word == "done":
                self.worlds.done(message[1])
                self.counts["acknowledged"] += 1
            elif word == "failed":
                self.worlds.failed()
                self.counts[f"failed with {message[1]}"] += 1
            elif word == "state":
                self.worlds = Worlds([unpack(message[1])])
            elif word == "event":
                self.count(message[1])
                self.counts[f"{message[1]}: {message[2]}"] += 1
            elif word == "skipped":
                self.counts[f"skipped {message[1]}"] += 1
                self.worlds.under_way = None
            elif word in ("read", "refused"):
                self.worlds.under_way = None
                self.counts["answers checked" if word == "read" else "bad input refused"] += 1
            elif word == "fault":
                raise Fault(message[1], message[2])


def _place(rng):
    """Most programs run in memory, every fifth on the disk."""
    memory = Path("/dev/shm")
    if rng.random() < 0.2 or not memory.is_dir() or shutil.disk_usage(memory).free < 1 << 28:
        return os.environ.get("TMPDIR")
    return memory
