"""Kills during `push`: of the client, of the server; then the same push again, and a count.

    python tests/adapters/kills.py                         # 200 of clients, 50 of servers
    python tests/adapters/kills.py --client 5 --server 2 --only duckdb

Before each kill some rows of the collection change and some are new. After it every row that the
table had must be there once, as the old one or as the new one, but where Milvus's engine is killed,
which has no transactions. After the repeated push the table must be equal to the collection.
Everything happens in children of this process, which is why it is quick; it exits with 1 if a row
was lost or came twice.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from servers import running_server

from sghash import Collection
from sghash.adapters import transfer
from sghash.adapters.transfer import Place, open_place, push
from sghash.errors import SghashError
from sghash.models import LSH

ROWS, BLOCK = 3000, 500
#: Of a hundred kills of clients and of servers, how many meet each engine.
CLIENTS = {"postgresql": 30, "duckdb": 25, "sqlite": 20, "faiss": 15, "milvus": 10}
SERVERS = {"postgresql": 80, "milvus": 20}
PACKAGES = {
    "postgresql": ["psycopg", "sghash.adapters.databases.postgresql", "sghash.kernels"],
    "duckdb": ["duckdb"],
    "sqlite": ["sqlite_vec", "sghash.adapters.databases.sqlite"],
    "faiss": ["faiss"],
    "milvus": ["pymilvus", "milvus_lite.server_manager"],
}


class Damage(NamedTuple):
    lost: int
    twice: int


def child(work: Callable[[], object], *, quiet: bool = False) -> int:
    """Fork, work there, and return the process's number; it ends with 0, or 1 after an error."""
    number = os.fork()
    if number:
        return number
    try:
        if quiet:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        work()
    except BaseException as error:
        if not quiet or not isinstance(error, SghashError):
            import traceback

            traceback.print_exc()
        os._exit(1)
    os._exit(0)


def done(number: int) -> int:
    """Wait for a child: 0, 1, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def run(work: Callable[[], object]) -> None:
    assert done(child(work)) == 0


class Trial:
    """One engine, its table, and the collection that is pushed there."""

    def __init__(self, kind: str, folder: Path, server, seed: int) -> None:
        self.folder, self.server, self.chance = folder / kind, server, random.Random(seed)
        self.folder.mkdir()
        address = server.address if kind == "postgresql" else str(self.folder / "codes.db")
        self.place, self.shelf = Place(kind, address), self.folder / "shelf"
        self.answer, self.round, self.seconds = self.folder / "answer.npy", 0, 0.5
        run(self._make)
        self._timed()

    def _make(self) -> None:
        rng = np.random.default_rng(0)
        vectors = rng.standard_normal((ROWS, 8)).astype(np.float32)
        with Collection.create(self.shelf, LSH(64, random_state=0).fit(vectors)) as made:
            made.add(vectors)

    def _change(self) -> None:
        rng = np.random.default_rng(self.round)
        with Collection.open(self.shelf, writable=True) as shelf:
            new = np.concatenate([rng.choice(shelf.ids, ROWS // 3, replace=False),
                                  shelf.ids.max() + 1 + np.arange(100)])  # fmt: skip
            shelf.upsert(rng.standard_normal((len(new), 8)).astype(np.float32), new)
            gone = np.setdiff1d(shelf.ids, new)[:100]
            shelf.delete(gone)
        with open_place(self.place, "codes") as index:  # else the table grows from kill to kill
            index.delete(np.intersect1d(gone, index.ids))

    def _push(self) -> None:
        transfer.BLOCK_ROWS = BLOCK
        with Collection.open(self.shelf) as shelf:
            push(shelf, self.place, "codes")

    def _timed(self) -> None:
        """A push to its end."""
        started = time.monotonic()
        run(self._push)
        self.seconds = time.monotonic() - started

    def _state(self) -> None:
        with open_place(self.place, "codes") as index:
            found = np.column_stack([index.ids, index.codes.view(np.int64).reshape(-1)])
            assert len(index) == len(found)
        np.save(self.answer, found)

    def _wanted(self) -> None:
        with Collection.open(self.shelf) as shelf:
            codes = shelf.get(shelf.ids).codes.view(np.int64).reshape(-1)
            np.save(self.answer, np.column_stack([shelf.ids, codes]))

    def _read(self, what: Callable[[], None]) -> np.ndarray:
        run(what)
        return np.load(self.answer)

    def kill(self, *, server: bool) -> Damage | None:
        """One kill; None where the push was done before it."""
        self.round += 1
        run(self._change)
        before, wanted = self._read(self._state), self._read(self._wanted)
        pushing = child(self._push, quiet=True)
        time.sleep(self.chance.random() * self.seconds * 1.1)
        if os.waitpid(pushing, os.WNOHANG)[0]:
            self._timed()
            return None
        if server and self.place.kind == "postgresql":
            self.server.kill()
            status = done(pushing)
            self.server.start()
        elif server:
            killed = _kill_engine_of(pushing)
            # A client whose engine is gone waits for it, longer than this does.
            os.kill(pushing, signal.SIGKILL)
            status = -done(pushing) if killed else 0
        else:
            os.kill(pushing, signal.SIGKILL)
            status = done(pushing)
        after = self._read(self._state)
        damage = compared(after, before, wanted, exactly=False)
        if server and self.place.kind == "milvus":
            damage = Damage(0, damage.twice)  # what it had not finished is there in part
        self._timed()
        again = compared(self._read(self._state), before, wanted, exactly=True)
        total = Damage(damage.lost + again.lost, damage.twice + again.twice)
        return total if status or any(total) else None


def compared(after: np.ndarray, before: np.ndarray, wanted: np.ndarray, *, exactly: bool) -> Damage:
    """Rows that are missing or wrong, and ids that are there more than once."""
    twice = len(after) - len(np.unique(after[:, 0]))
    new = {tuple(row) for row in wanted.tolist()}
    there = {tuple(row) for row in after.tolist()}
    if exactly:
        return Damage(len(new - there) + len(there - new), twice)
    old = {tuple(row) for row in before.tolist()}
    missing = set(before[:, 0].tolist()) - set(after[:, 0].tolist())
    return Damage(len(there - new - old) + len(missing), twice)


def _kill_engine_of(parent: int) -> bool:
    """SIGKILL to Milvus Lite's engine, a child of the client; False where there is none yet."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)
            if int(fields[1].split()[1]) == parent and "milvus" in fields[0]:
                os.kill(int(entry.name), signal.SIGKILL)
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def _load(kind: str) -> None:
    """Import what every child would import, some of it for seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PACKAGES[kind]:
            importlib.import_module(name)


def shares(total: int, weights: dict[str, int], only: list[str]) -> dict[str, int]:
    """How many of the kills each engine gets; the first takes what is left over."""
    chosen = {kind: weight for kind, weight in weights.items() if not only or kind in only}
    if not chosen or not total:
        return {}
    counts = {k: total * weight // sum(chosen.values()) for k, weight in chosen.items()}
    counts[next(iter(counts))] += total - sum(counts.values())
    return counts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--client", type=int, default=200)
    parser.add_argument("--server", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=[], choices=list(CLIENTS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    plans = {"client": shares(options.client, CLIENTS, options.only),
             "server": shares(options.server, SERVERS, options.only)}  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="kills"))
    kills, lost, twice = 0, 0, 0
    try:
        with running_server() as server:
            for kind in CLIENTS:
                if not any(plan.get(kind) for plan in plans.values()):
                    continue
                _load(kind)
                trial = Trial(kind, folder, server, options.seed)
                for who, plan in plans.items():
                    counted = 0
                    while counted < plan.get(kind, 0):
                        damage = trial.kill(server=who == "server")
                        if damage is not None:
                            counted, lost, twice = (
                                counted + 1, lost + damage.lost, twice + damage.twice,
                            )  # fmt: skip
                    kills += counted
                    if counted:
                        print(f"{kind}: {counted} kills of the {who}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{kills} kills, {lost} lost, {twice} twice", flush=True)
    return int(bool(lost or twice))


if __name__ == "__main__":
    sys.exit(main())
