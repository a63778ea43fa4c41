"""A writer at work: it does random operations and compares every answer with the reference.

After each operation that something was done to, the collection is opened afresh and compared in
full; the writer's own view must fit as well, and it must be able to go on.
"""

from __future__ import annotations

import gc
import os
import shutil

import answers
import drawing
import operations
from actors import now
from checking import check_among, check_consistent, check_folder, contents, look
from faults import Quiet
from pool import pool
from reference import CHANGES, Fault, Reference, Row, text_of

from sghash import Collection, SghashError

MOST_STATES = 8
_CONTENTS = {"name": "contents"}


def pack(state):
    """A state as plain values."""
    rows = {id_: tuple(row) for id_, row in state.rows.items()}
    return (state.keep, state.metric, state.model, rows, state.low, state.high)


def unpack(packed):
    keep, metric, model, rows, low, high = packed
    return Reference(keep, metric, model, {i: Row(*row) for i, row in rows.items()}, low, high)


def perform(session, op):
    """Do it; interrupts are raised while this function runs."""
    name, folder = op["name"], session.folder
    if name == "fresh":
        collection = Collection.open(folder)
        collection.verify()
        return contents(collection)
    if name == "in memory":
        return operations.in_memory(folder)
    if name == "reader":
        if session.reader is None:
            session.reader = Collection.open(folder)
        session.reader.refresh()
        return contents(session.reader)
    if name == "reopen" and session.collection is not None:
        session.collection.close()
        session.collection = None
    if session.collection is None:
        session.collection = Collection.open(folder, writable=True, model=session.own_model)
    if name == "reopen":
        return None
    if name == "backup":
        return operations.backup(session.collection, session.copy)
    if name == "bad":
        return operations.bad(session.collection, op)
    if name in CHANGES or name == "compact":
        return operations.change(session.collection, op)
    return operations.read(session.collection, op)


class Session:
    """A writer's collection beside the `worlds` that it may be in."""

    def __init__(self, folder, worlds, tell, regime, rng):
        self.folder, self.worlds, self.tell, self.regime = folder, worlds, tell, regime
        self.rng = rng
        self.collection = self.reader = self.copy = self.own_model = None
        self._n_copies = 0

    def _prepare(self):
        """A new place for a copy; now and then a model to be given, if it is certain which."""
        self._n_copies += 1
        self.copy = self.folder.parent / f"copy-{os.getpid()}-{self._n_copies}"
        models = {state.model for state in self.worlds.states}
        given = len(models) == 1 and self.rng.random() < 0.3
        self.own_model = pool().models[models.pop()] if given else None

    def run(self, n, weights):
        """Do n operations and close the collection."""
        for _ in range(n):
            self.step(drawing.draw(self.rng, self.worlds.states, weights))
        self._reopen()
        self.collection.close()
        self.tell(("state", pack(self.worlds.states[0])))
        self.collection = self.reader = None
        if self.regime.kind != "interrupts":
            check_handles(self.folder)

    def _reopen(self):
        """Nothing is armed now: a new writer must be able to go on."""
        regime, self.regime = self.regime, Quiet()
        self.step({"name": "reopen"})
        self.regime = regime

    def step(self, op):
        """One operation and what must be true after it."""
        self.worlds.begin(op)
        self.tell(("begin", op, now()))
        fired = self.regime.fired
        self._prepare()
        interrupt = None
        try:
            try:
                self.regime.arm()
                found = perform(self, op)
            finally:
                self.regime.disarm()
        except Fault:
            raise
        except operations.Skipped:
            self.worlds.under_way = None
            self.tell(("skipped", op["name"]))
        except KeyboardInterrupt as error:
            self.regime.disarm()
            interrupt = error.with_traceback(None)
            interrupt.__context__ = None
        except BaseException as error:
            # What the error holds must not keep a lock: a caller may try again at once.
            self._failed(op, error, self.regime.fired > fired)
        else:
            self._succeeded(op, found, self.regime.fired > fired)
        if interrupt is not None:
            self._failed(op, interrupt, self.regime.fired > fired)

    def _succeeded(self, op, found, fired):
        name = op["name"]
        if name == "bad":
            raise Fault("accepted bad input", str(op))
        if name in CHANGES or name in ("compact", "reopen"):
            self.worlds.done(found)
            self.tell(("done", found, now()))
            if fired or len(self.worlds.states) > 1:
                self._settle()
        else:
            self.worlds.under_way = None
            self._check_answer(op, found)
            self.tell(("read", name))
        if fired:
            self._event("went on")

    def _check_answer(self, op, found):
        name = op["name"]
        if name == "backup":
            found = look(self.copy)
            shutil.rmtree(self.copy)
        asked = op if name in answers.MATCHES else _CONTENTS
        if not any(answers.matches(asked, found, state) for state in self.worlds.states):
            raise Fault("wrong answer", f"{op} gave {str(found)[:600]}")

    def _failed(self, op, error, fired):
        refused = isinstance(error, SghashError)
        if isinstance(error, operations.Balk):
            # All of the change or nothing of it, as with any other error.
            refused = fired = True
        if not refused and not (fired and isinstance(error, KeyboardInterrupt)):
            kind = "raw error"
            raise Fault(kind, f"{op['name']}: {text_of(error)}") from error
        if op["name"] == "bad" and refused:
            self.worlds.under_way = None
            self.tell(("refused", op["kind"]))
            return
        if not fired:
            raise Fault("refused without reason", f"{op['name']}: {text_of(error)}") from error
        self.worlds.failed()
        self.tell(("failed", type(error).__name__, now()))
        self._after_failure(op)
        if not isinstance(error, operations.Balk):
            self._event("failed")

    def _after_failure(self, op):
        """The disk, the writer's memory and the reader must each show one of the worlds."""
        check_among(look(self.folder), self.worlds, "on the disk")
        if op["name"] == "backup":
            check_half_copy(self.copy, self.worlds)
        try:
            if op["name"] == "reopen" and self.collection is not None:
                self.collection.close()
                self.collection = None
            if self.collection is not None:
                own = contents(self.collection)
                check_among(own, self.worlds, "in the writer's memory")
                check_consistent(self.collection, own)
            if self.reader is not None:
                self.reader.refresh()
                check_among(contents(self.reader), self.worlds, "in a refreshed reader")
        except Fault:
            raise
        except Exception as error:
            kind = "does not recover" if isinstance(error, SghashError) else "raw error"
            raise Fault(kind, f"after a failed {op['name']}: {text_of(error)}") from error
        if len(self.worlds.states) > MOST_STATES or self.rng.random() < 0.2:
            self._reopen()

    def _settle(self):
        """A change has succeeded: now it is certain which of the failed ones took effect."""
        check_folder(self.folder, self.worlds)
        if self.collection is not None:
            check_among(contents(self.collection), self.worlds, "in the writer's memory")
        self.tell(("state", pack(self.worlds.states[0])))

    def _event(self, how):
        self.tell(("event", self.regime.kind, how))


def check_handles(folder):
    """No file may be open when everything is closed; only Ctrl-C may come between the two."""
    gc.collect()
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    paths = [os.readlink(link) for link in links if os.path.lexists(link)]
    left = [path for path in paths if path.startswith(f"{os.path.realpath(folder)}/")]
    if left:
        raise Fault("handles left open", str(left))


def check_half_copy(path, worlds):
    """A backup that did not end well is refused when it is opened, or is whole."""
    try:
        Collection.open(path)
    except SghashError:
        pass
    else:
        check_among(look(path), worlds, "in a copy that was cut off")
    shutil.rmtree(path, ignore_errors=True)
