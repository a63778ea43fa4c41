"""Readers beside a writer: other processes, and threads of the same one.

A reader may see any state that was acknowledged, or under way, while it looked: never another
one, never an earlier one than before.
"""

from __future__ import annotations

import hashlib
import marshal
import shutil
import sys
import threading
import time

import answers
import drawing
import numpy as np
import operations
from actors import Child, now
from checking import check_consistent, contents, explain, look
from faults import Errors, Quiet
from pool import pool
from reference import CHANGES, Fault, Worlds, text_of
from session import Session, unpack
from twins import has_tables

from sghash import Collection, InvalidInput, SghashError, StorageError

FOREVER = 1 << 62


def readers(program, rng):
    """Two readers in processes of their own while a writer works until it is killed."""
    seconds = float(rng.uniform(0.08, 0.2))
    end = now() + int(1e9 * (seconds + 0.08))
    seeds, troubled = rng.integers(1 << 30, size=2).tolist(), rng.random() < 0.4

    def watch(seed):
        target = program.root / f"copy-{seed}"
        return lambda tell: _watch(tell, program.folder, np.random.default_rng(seed), end, target)

    def work(tell):
        regime = Quiet()
        if troubled:
            regime = Errors(program.folder, rng)
            regime.install()
        Session(program.folder, program.worlds, tell, regime, rng).run(400, drawing.WRITES)

    watchers = [Child(watch(seed), program.stderr) for seed in seeds]
    writer = Child(work, program.stderr)
    writer.read(seconds)
    writer.kill()
    writer.raise_faults()
    line = timeline(program.worlds, writer.messages)
    for watcher in watchers:
        check_seen(watcher.end(), line, program.counts)
    program.follow(writer.messages)
    program.count("readers beside a writer")


def _watch(tell, folder, rng, end, target):
    """Look again and again; every search must fit what the rows say."""
    collection, known = None, set()
    while now() < end:
        start = now()
        try:
            if collection is None or rng.random() < 0.2:
                collection = Collection.open(folder)
            else:
                collection.refresh()
            found = contents(collection)
            seen = now()
            check_consistent(collection, found)
            if hasattr(Collection, "backup") and rng.random() < 0.05:
                collection.backup(target)
                tell(("copied", start, now(), *_digest(look(target), known)))
                shutil.rmtree(target)
        except StorageError as error:
            if "refresh" not in str(error):
                raise Fault("reader refused", text_of(error)) from error
            tell(("stale",))
            continue
        except SghashError as error:
            raise Fault("reader refused", text_of(error)) from error
        except Fault:
            raise
        except Exception as error:
            raise Fault("raw error", f"in a reader: {text_of(error)}") from error
        tell(("seen", start, seen, *_digest(found, known)))


def _digest(found, known):
    """The contents in few bytes, and in full when they are seen for the first time."""
    digest = digest_of(found)
    first = digest not in known
    known.add(digest)
    return digest, found if first else None


def digest_of(found):
    return hashlib.blake2b(marshal.dumps(found, 2), digest_size=16).digest()


def timeline(worlds, messages):
    """Each state with the times from which and until which it could be seen, in their order.

    A change that failed may be seen and withdrawn: what was before it stands there once more.
    """
    worlds = Worlds(worlds.states)
    line = [[state, 0, FOREVER] for state in worlds.states]
    begun = 0
    for message in messages:
        word = message[0]
        if word == "begin":
            begun = message[2]
            worlds.begin(message[1])
        elif word == "done":
            op, blocks = worlds.under_way, []
            if op.get("block"):
                blocks = [after for state in worlds.states for after in state.outcomes(op)]
            worlds.done(message[1])
            if op["name"] in CHANGES:
                line += [[state, begun, FOREVER] for state in blocks]
                for entry in line:
                    entry[2] = min(entry[2], message[2])
                line += [[state, begun, FOREVER] for state in worlds.states]
        elif word == "failed":
            before = worlds.states
            worlds.failed()
            line += [[state, begun, FOREVER] for state in [*worlds.states, *before]]
        elif word == "state":
            worlds = Worlds([unpack(message[1])])
        elif word in ("read", "refused", "skipped"):
            worlds.under_way = None
    return line + [[state, begun, FOREVER] for state in worlds.possible()]


def check_seen(messages, line, counts):
    """Every look must show a state of its time, and never go back."""
    digests = [digest_of(state.contents) for state, _, _ in line]
    place, full = 0, {}
    for message in messages:
        if message[0] == "stale":
            counts["readers told to refresh"] += 1
            continue
        word, start, end, digest, found = message
        full[digest] = found or full[digest]
        fits = [
            i
            for i, (_, since, until) in enumerate(line)
            if digests[i] == digest and since <= end and until >= start
        ]
        later = [i for i in fits if i >= place]
        if not fits or (word == "seen" and not later):
            now_or_before = [s for s, since, until in line if since <= end and until >= start]
            kind = "reader went back" if fits else "reader saw a wrong state"
            raise Fault(kind, explain(full[digest], now_or_before))
        if word == "seen":
            place = later[0]
        counts["looks of readers" if word == "seen" else "backups beside a writer"] += 1


THREAD_WRITES = {
    "add": 10, "add keys": 6, "add large": 6, "upsert": 10, "upsert large": 3, "delete": 10,
    "compact": 6, "reencode": 14,
}  # fmt: skip


class Shared:
    """The states so far; a search may see any from `acked` at its start to `begun` at its end."""

    def __init__(self, state):
        self.states, self.acked, self.begun = [state], 0, 0
        self.stop, self.log, self.errors = threading.Event(), [], []


def threads(program, rng):
    """Threads that search while another one adds, deletes, compacts and replaces the model."""
    seeds = rng.integers(1 << 30, size=4).tolist()

    def work(tell):
        sys.setswitchinterval(float(10 ** rng.uniform(-5.5, -3)))
        shared = Shared(program.worlds.states[0])
        writer = Collection.open(program.folder, writable=True)
        reader = Collection.open(program.folder)
        pairs = zip(seeds, [writer, writer, reader, reader], strict=True)
        asking = [
            threading.Thread(
                target=_ask, args=(shared, c, np.random.default_rng(seed), c is reader)
            )
            for seed, c in pairs
        ]
        for thread in asking:
            thread.start()
        try:
            _write(shared, writer, rng, tell, time.monotonic() + 0.2)
        finally:
            shared.stop.set()
            for thread in asking:
                thread.join()
        for error in shared.errors:
            raise error
        tell(("answers", check_log(shared)))
        writer.close()

    messages = Child(work, program.stderr).end()
    program.counts["answers in threads"] += sum(m[1] for m in messages if m[0] == "answers")
    program.follow(messages)
    program.count("threads beside a writer")


def _write(shared, collection, rng, tell, end):
    while time.monotonic() < end:
        state = shared.states[-1]
        op = drawing.draw(rng, [state], THREAD_WRITES)
        tell(("begin", op, now()))
        following = state.outcomes(op)[0] if op["name"] in CHANGES else state
        shared.states.append(following)
        shared.begun += 1
        try:
            ids = operations.change(collection, op)
        except Exception as error:
            raise Fault(_kind(error), f"{op['name']} beside searches: {text_of(error)}") from error
        if ids is not None and ids != state.ids_for(op, state.low):
            raise Fault("wrong ids", f"{ids} for {op}")
        shared.acked += 1
        tell(("done", ids, now()))


def _ask(shared, collection, rng, refreshing):
    first = 0
    try:
        while not shared.stop.is_set():
            first = first if refreshing else shared.acked
            if refreshing and rng.random() < 0.4:
                since = shared.acked
                collection.refresh()
                first = since
            op = _question(rng, shared.states[shared.acked])
            try:
                found = operations.read(collection, op)
            except InvalidInput as error:
                found = error
            except StorageError as error:
                if not refreshing or "refresh" not in str(error):
                    raise
                continue
            shared.log.append((op, first, shared.begun, found))
    except Exception as error:
        shared.errors.append(Fault(_kind(error), f"in a searching thread: {text_of(error)}"))


def _question(rng, state):
    place = rng.random()
    if place < 0.6:
        return drawing.search(rng, [state], plain=True)
    if place < 0.75:
        return drawing.ranges(rng, [state]) or {"name": "len"}
    if place < 0.85 and state.rows:
        return {"name": "get", "ids": [int(rng.choice(state.ids))], "keys": None}
    return {"name": str(rng.choice(["len", "ids", "stats"]))}


def check_log(shared):
    """Every answer must be exactly right for one state of its time."""
    for op, first, last, found in shared.log:
        states = shared.states[first : last + 1]
        if isinstance(found, InvalidInput):
            gone = op["name"] == "get" and any(i not in s.rows for s in states for i in op["ids"])
            if not gone and not _may_refuse(op, states):
                raise Fault("refused without reason", f"{op}: {found}")
        elif not any(answers.matches(op, found, state) for state in states):
            raise Fault("wrong answer", f"{op} in a thread gave {str(found)[:500]}")
    return len(shared.log)


def _may_refuse(op, states):
    """A question about bits may meet a state whose codes are bytes, since the model was replaced.

    So may a shortlist, which tables do not need.
    """
    by_tables = any(has_tables(pool().models[state.model]) for state in states)
    shortlist = op["name"] == "search" and op["rerank"] == "decoder" and op["shortlist"] != "all"
    return by_tables and (op["name"] == "range" or shortlist)


def _kind(error):
    return "refused without reason" if isinstance(error, SghashError) else "raw error"
