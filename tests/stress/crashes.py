"""Writers that die: killed at any moment, at a disk call, or in the midst of a write."""

from __future__ import annotations

import shutil

import drawing
from actors import Child, now
from checking import check_folder
from faults import Quiet, Stop
from pool import pool
from reference import Fault, Reference, Worlds
from session import Session, check_half_copy

from sghash import Collection, SghashError
from sghash.collection import ShardedCollection


def killed(program, rng):
    """SIGKILL at a random moment of a writer without faults."""
    delay = float(rng.uniform(0.005, 0.09))

    def work(tell):
        Session(program.folder, program.worlds, tell, Quiet(), rng).run(200, drawing.WRITES)

    child = Child(work, program.stderr)
    child.read(delay)
    if child.kill():
        program.count("kills")
    child.raise_faults()
    program.follow(child.messages)


def stopped(program, rng):
    """SIGKILL at a certain disk call: before it, after it, or half through a write."""
    where = str(rng.choice(["before", "after", "torn"]))
    n = int(10 ** rng.uniform(0, 2.5))

    def work(tell):
        regime = Stop(program.root, n, where)
        regime.install()
        Session(program.folder, program.worlds, tell, regime, rng).run(60, drawing.WRITES)

    child = Child(work, program.stderr)
    ended = child.read()
    if not ended:
        child.end(0)
    if child.reap() < 0:
        program.count("torn writes" if where == "torn" else "stops")
    child.raise_faults()
    program.follow(child.messages)


def killed_creating(program, rng):
    """A half-made collection is refused or empty, and does not stand in the way of a new one."""
    path = program.root / "new"
    where, n = str(rng.choice(["before", "after", "torn"])), int(rng.integers(1, 40))
    by_time = rng.random() < 0.3
    op = drawing.first_change(rng)

    def work(tell):
        regime = Stop(program.root, 10**9 if by_time else n, where)
        regime.install()
        tell(("ready",))
        regime.arm()
        session = Session(path, Worlds([Reference("float32", "l2")]), tell, regime, rng)
        session.collection = Collection.create(path, pool().models[0], keep_vectors="float32")
        tell(("created",))
        session.step(op)
        session.collection.close()

    child = Child(work, program.stderr)
    child.read(float(rng.uniform(0.012, 0.02)) if by_time else 30)
    if child.kill():
        program.count("kills while creating")
    child.raise_faults()
    _check_new(program, path, child.messages, op)
    shutil.rmtree(path, ignore_errors=True)


def _check_new(program, path, messages, op):
    worlds = Worlds([Reference("float32", "l2")])
    told = [message[0] for message in messages]
    if "begin" in told:
        worlds.begin(op)
    if "done" in told:
        worlds.done(next(message[1] for message in messages if message[0] == "done"))
    try:
        Collection.open(path)
    except SghashError as error:
        if "created" in told:
            raise Fault("wrong contents", f"created, but cannot be opened: {error}") from error
    else:
        return check_folder(path, worlds)
    try:
        Collection.create(path, pool().models[0]).close()
    except SghashError as error:
        raise Fault("half-made folder in the way", str(error)) from error
    program.counts["half-made folders made anew"] += 1
    return check_folder(path, Worlds([Reference(None, "l2")]))


def killed_copying(program, rng):
    """The collection stays as it was, the copy is refused or whole."""
    target = program.root / "copy"

    def copy():
        collection = Collection.open(program.folder, writable=bool(rng.random() < 0.5))
        return lambda: collection.backup(target)

    if _killed_within(program, rng, copy, "kills while copying"):
        check_folder(target, Worlds(program.worlds.states))
    else:
        check_half_copy(target, program.worlds)
    shutil.rmtree(target, ignore_errors=True)


def killed_dividing(program, rng):
    """The collection stays as it was, a new shard is whole or not there, and the next try ends."""
    targets = [program.root / f"part-{number}" for number in range(int(rng.integers(1, 4)))]

    def divide():
        shards = ShardedCollection.open([program.folder])
        return lambda: shards.reshard(targets)

    _killed_within(program, rng, divide, "kills while dividing")
    for target in targets:
        if target.exists():
            ShardedCollection.open([target]).verify()
            shutil.rmtree(target)
    parts = ShardedCollection.open([program.folder]).reshard(targets)
    merged = program.root / "merged"
    parts.reshard([merged])
    check_folder(merged, Worlds(program.worlds.states))
    for target in (*targets, merged):
        shutil.rmtree(target, ignore_errors=True)


def _killed_within(program, rng, prepare, counted):
    """SIGKILL in the midst of what `prepare()` gives back to be called; whether it ended."""
    where, by_time = str(rng.choice(["before", "after", "torn"])), rng.random() < 0.3
    n = int(10 ** rng.uniform(0, 2))

    def work(tell):
        regime = Stop(program.root, 10**9 if by_time else n, where)
        regime.install()
        action = prepare()
        tell(("ready", now()))
        regime.arm()
        action()
        tell(("ended", now()))

    child = Child(work, program.stderr)
    child.read(float(rng.uniform(0.012, 0.03)) if by_time else 30)
    if child.kill():
        program.count(counted)
    child.raise_faults()
    return any(message[0] == "ended" for message in child.messages)
