"""Saves of a model over another that are killed: run as a program, prints what it found as JSON.

python killing.py calls FOLDER    before and after every call that changes the file system
python killing.py fallback FOLDER the same on a system that cannot exchange two folders
python killing.py moments FOLDER  at random moments
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sghash
from sghash.errors import BadFile
from sghash.models import placing

NAMES = ("mkdir", "replace", "fsync", "unlink", "rmdir", "chmod")


class Model:
    """A folder with a model, and how to save another over it in a process of its own."""

    def __init__(self, folder: Path) -> None:
        vectors = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
        self.old, self.new = (
            sghash.models.LSH(n_bits=8, random_state=s).fit(vectors) for s in (0, 1)
        )
        self.folder = folder
        self.known = {self.old.fingerprint_: "old", self.new.fingerprint_: "new"}

    def reset(self) -> None:
        shutil.rmtree(self.folder.parent)
        self.old.save(self.folder)

    def child(self, prepare: Callable[[], None]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            prepare()
            self.new.save(self.folder, overwrite=True)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)

    def state(self) -> str:
        """Which model is found under its name; "aside" if a sentence says where it lies."""
        try:
            return self.known[sghash.load_model(self.folder).fingerprint_]
        except BadFile as error:
            told = str(error)
        (aside,) = (path for path in self.folder.parent.iterdir() if str(path) in told)
        assert self.known[sghash.load_model(aside).fingerprint_] == "old"
        return "aside"

    def check(self) -> str:
        """The state, and that a later save leaves nothing but one whole model."""
        state = self.state()
        placing.YOUNG_SECONDS = 0.0
        self.new.save(self.folder, overwrite=True)
        assert self.state() == "new"
        left = [path.name for path in self.folder.parent.iterdir()]
        assert left == [self.folder.name], left
        return state


def stop_at(call: int, *, after: bool) -> None:
    """Let this process end before, or after, the call of this number."""
    seen = 0

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def stopping(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == call and not after:
                os._exit(9)
            own = seen
            try:
                return real(*arguments, **options)
            finally:
                if own == call:
                    os._exit(9)

        return stopping

    for name in NAMES:
        setattr(os, name, wrapped(getattr(os, name)))
    placing.exchange = wrapped(placing.exchange)


def by_calls(model: Model) -> Counter[str]:
    found: Counter[str] = Counter()
    for after in (False, True):
        call = 1
        while True:
            model.reset()
            child = model.child(lambda c=call, a=after: stop_at(c, after=a))  # type: ignore[misc]
            _, status = os.waitpid(child, 0)
            found[model.check()] += 1
            code = os.waitstatus_to_exitcode(status)
            assert code in (0, 9), f"the save itself failed: {code}"
            if code == 0:
                break
            found["stopped"] += 1
            call += 1
    return found


def by_moments(model: Model, n: int) -> Counter[str]:
    """Kills spread over the time that a save takes here and now, `n` of them or more.

    More, up to ten times as many, until enough saves were stopped, some early and some late.
    """
    found: Counter[str] = Counter()
    draw = random.Random(3)
    seconds = []
    for _ in range(5):
        model.reset()
        started = time.perf_counter()
        os.waitpid(model.child(lambda: None), 0)
        seconds.append(time.perf_counter() - started)
    for turn in range(10 * n):
        if turn >= n and found["stopped"] >= n // 3 and found["old"] and found["new"]:
            break
        model.reset()
        child = model.child(lambda: None)
        time.sleep(draw.random() * sorted(seconds)[2])
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found["stopped"] += os.WIFSIGNALED(status)
        found[model.check()] += 1
    return found


def main() -> None:
    how, folder = sys.argv[1], Path(sys.argv[2])
    (folder / "place").mkdir()
    model = Model(folder / "place" / "model")
    if how == "fallback":
        placing.exchange = lambda left, right: False
    print(json.dumps(by_moments(model, 60) if how == "moments" else by_calls(model)))


if __name__ == "__main__":
    main()
