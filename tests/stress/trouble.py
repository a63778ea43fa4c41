"""Writers that live on: errors of the disk, Ctrl-C, and nothing at all."""

from __future__ import annotations

import shutil

import drawing
from actors import Child
from checking import check_folder
from faults import Errors, Quiet
from interrupts import Interrupts
from pool import pool
from reference import Reference, Worlds
from session import Session, perform

from sghash import Collection, SghashError

EVERYTHING = {**drawing.WRITES, **drawing.READS}


def errors(program, rng):
    """The disk refuses now and then: writes, syncs, reads; once or many times in a row."""
    _work(program, rng, lambda: Errors(program.root, rng), 30)


def interrupts(program, rng):
    """Ctrl-C at random moments, also while the first one is being dealt with."""
    _work(program, rng, lambda: Interrupts(program.root, rng, perform), 25)


def plain(program, rng):
    """Nothing goes wrong: every operation and every answer must be right."""
    _work(program, rng, Quiet, 40)
    program.count("plain runs")


def creating(program, rng):
    """A create that fails leaves nothing in the way of the next one, and no lock."""
    path = program.root / "new"

    def work(tell):
        kinds = [lambda: Errors(program.root, rng), lambda: Interrupts(program.root, rng, _create)]
        regime = kinds[rng.integers(2)]()
        regime.install()
        for _ in range(4):
            fired = regime.fired
            try:
                try:
                    regime.arm()
                    collection = _create(path)
                finally:
                    regime.disarm()
            except (SghashError, KeyboardInterrupt):
                collection = None
            if regime.fired > fired:
                tell(("event", f"{regime.kind} while creating", "failed or went on"))
            _go_on(path, collection)

    program.follow(Child(work, program.stderr).end())


def _create(path):
    return Collection.create(path, pool().models[0], keep_vectors="float32")


def _go_on(path, collection):
    """Whether a create failed or not, there is a collection to be had at once."""
    if collection is None:
        try:
            Collection.open(path)
        except SghashError:
            collection = _create(path)
        else:
            collection = Collection.open(path, writable=True)
    collection.close()
    check_folder(path, Worlds([Reference("float32", "l2")]))
    shutil.rmtree(path)


def _work(program, rng, make, n):
    def work(tell):
        regime = make()
        if hasattr(regime, "install"):
            regime.install()
        Session(program.folder, program.worlds, tell, regime, rng).run(n, EVERYTHING)

    child = Child(work, program.stderr)
    program.follow(child.end())
