"""Who may write: forked children, moved processes, second writers, several creators at once."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import drawing
import operations
from actors import Child, now
from checking import check_among, check_folder, contents
from faults import Quiet
from pool import pool
from reference import Fault, Reference, Worlds
from session import Session

from sghash import Collection, SghashError


def forked(program, rng):
    """A child forked after opening must not write; its parent goes on as if it were not there."""
    close, wait = rng.random() < 0.3, rng.random() < 0.5

    def work(tell):
        session = Session(program.folder, program.worlds, tell, Quiet(), rng)
        for _ in range(4):
            session.step(drawing.draw(rng, session.worlds.states, drawing.WRITES))
        session.step({"name": "len"})  # a backup would not open the collection
        stop, go = os.pipe()
        child = Child(lambda tell: _trespass(session, rng, tell, stop, go, close), program.stderr)
        os.close(stop)
        if wait:
            os.close(go)
            child.end()
        session.run(6, drawing.WRITES)
        if not wait:
            os.close(go)
            child.end()

    program.follow(Child(work, program.stderr).end())
    program.count("forks after open")


def _trespass(session, rng, tell, stop, go, close):
    """What a forked child tries: everything that writes is refused, what it reads is right."""
    os.close(go)
    session.tell = tell
    states = session.worlds.states
    names = {
        name: n for name, n in drawing.WRITES.items() if name not in ("reopen", "backup", "bad")
    }
    for _ in range(3):
        op = drawing.draw(rng, states, names)
        try:
            operations.change(session.collection, op)
        except SghashError:
            pass
        except Exception as error:
            raise Fault("raw error", f"{op['name']} in a forked child: {error!r}") from error
        else:
            raise Fault("a forked child could write", op["name"])
    with suppress(SghashError):  # the parent may have replaced the model since
        check_among(contents(session.collection), session.worlds, "in a forked child")
    if close:
        session.collection.close()
    os.read(stop, 1)


def moved(program, rng):
    """A process opens by a relative path and goes elsewhere; so does one that creates."""
    elsewhere = program.root / "elsewhere"
    elsewhere.mkdir()

    def work(tell):
        os.chdir(program.root)
        session = Session(program.folder, program.worlds, tell, Quiet(), rng)
        session.collection = Collection.open("c", writable=True)
        session.reader = Collection.open("c")
        made = Collection.create("made", pool().models[1], keep_vectors="float16")
        os.chdir(elsewhere)
        op = drawing.first_change(rng)
        worlds = Worlds([Reference("float16", "l2", model=1)])
        worlds.begin(op)
        worlds.done(operations.change(made, op))
        made.compact()
        made.close()
        check_folder(program.root / "made", worlds)
        check_among(contents(made), worlds, "made by a relative path")
        session.run(15, {**drawing.WRITES, "reader": 20, "verify": 5, "stats": 5, "get": 5})

    program.follow(Child(work, program.stderr).end())
    if os.listdir(elsewhere):
        raise Fault("wrong contents", f"files in another folder: {os.listdir(elsewhere)}")
    shutil.rmtree(program.root / "made")
    elsewhere.rmdir()
    program.count("moves after open")


def second_writer(program, rng):
    """A second writer is refused, here and in another process, as long as the first is open."""

    def intrude(tell):
        try:
            Collection.open(program.folder, writable=True)
        except SghashError:
            tell(("refused", "writer"))
        else:
            raise Fault("two writers at once", "a second process could open for writing")

    def work(tell):
        session = Session(program.folder, program.worlds, tell, Quiet(), rng)
        weights = {name: n for name, n in drawing.WRITES.items() if name != "reopen"}
        session.step({"name": "reopen"})
        for _ in range(2):
            session.step(drawing.draw(rng, session.worlds.states, weights))
            Child(intrude, program.stderr).end()
            try:
                Collection.open(program.folder, writable=True)
            except SghashError:
                pass
            else:
                raise Fault("two writers at once", "one process could open twice for writing")
        session.run(5, drawing.WRITES)

    program.follow(Child(work, program.stderr).end())
    program.count("second writers")


def contention(program, rng):
    """Three processes open, add and close in a loop: one at a time, and no row or id is lost."""
    end = now() + 120_000_000
    seeds = rng.integers(1 << 30, size=3).tolist()
    program.worlds = Worlds(program.worlds.states[:1])

    def work(seed):
        return lambda tell: _take_turns(tell, program.folder, seed, end)

    children = [Child(work(seed), program.stderr) for seed in seeds]
    turns = sorted(m[1:] for child in children for m in child.end() if m[0] == "turn")
    last = 0
    for opened, closed, op, ids in turns:
        if opened < last:
            raise Fault("two writers at once", "the times of two writers overlap")
        last = closed
        program.worlds.begin(op)
        program.worlds.done(ids)
    program.counts["turns of writers"] += len(turns)
    program.count("contentions")


def _take_turns(tell, folder, seed, end):
    rng = drawing.generator(seed)
    while now() < end:
        try:
            collection = Collection.open(folder, writable=True)
        except SghashError:
            continue
        opened = now()
        op = drawing.change("add", rng, int(rng.integers(1, 3)))
        ids = operations.change(collection, op)
        closed = now()
        collection.close()
        tell(("turn", opened, closed, op, ids))


def race(program, rng):
    """Several processes create the same collection: one wins, and keeps what it was given."""
    path = program.root / "raced"
    seeds = rng.integers(1 << 30, size=3).tolist()
    ready, go = os.pipe()

    def work(seed):
        return lambda tell: _create(tell, path, seed, ready, go)

    children = [Child(work(seed), program.stderr) for seed in seeds]
    os.close(ready)
    os.close(go)
    won = []
    for child in children:
        told = {message[0]: message[1:] for message in child.end()}
        if "won" in told:
            won.append(told["won"])
    if len(won) != 1:
        raise Fault("creation race", f"{len(won)} of {len(children)} processes could create")
    worlds = Worlds([Reference("float32", "l2", model=won[0][0])])
    for op, ids in won[0][1]:
        worlds.begin(op)
        worlds.done(ids)
    check_folder(path, worlds)
    shutil.rmtree(path)
    program.count("creation races")


def _create(tell, path, seed, ready, go):
    os.close(go)
    rng = drawing.generator(seed)
    model = seed % len(pool().models)
    os.read(ready, 1)
    try:
        collection = Collection.create(path, pool().models[model], keep_vectors="float32")
    except SghashError:
        return
    except Exception as error:
        raise Fault("raw error", f"create in a race: {error!r}") from error
    done = []
    try:
        for _ in range(3):
            op = drawing.change("add", rng, 3)
            done.append((op, operations.change(collection, op)))
        collection.close()
    except Exception as error:
        raise Fault("creation race", f"the winner cannot write: {error!r}") from error
    tell(("won", model, done))
