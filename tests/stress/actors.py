"""Processes: forked from a warm parent, telling what they do through a pipe."""

from __future__ import annotations

import faulthandler
import gc
import marshal
import os
import select
import signal
import struct
import sys
import time
import traceback

from reference import Fault, text_of

from sghash import SghashError

_HEAD = struct.Struct("<I")
_write, _exit = os.write, os._exit
# Seconds until a process counts as hung.
PATIENCE = float(os.environ.get("SGHASH_STRESS_PATIENCE", "30"))


def now():
    """A clock that all processes share."""
    return time.monotonic_ns()


class Child:
    """A forked process that runs `job(tell)`; `tell` sends a tuple of plain values."""

    def __init__(self, job, stderr):
        out, into = os.pipe()
        self._stderr, self._data, self.status, self.messages = stderr, b"", None, []
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(out)
            _live(job, into, stderr)
        os.close(into)
        self._out = out

    def read(self, seconds=PATIENCE):
        """Read messages until the process has ended (True) or the time is over (False)."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._out], [], [], left)[0]:
                return False
            data = os.read(self._out, 1 << 16)
            if not data:
                return True
            self._take(data)

    def _take(self, data):
        self._data += data
        while len(self._data) >= _HEAD.size:
            length = _HEAD.unpack_from(self._data)[0] + _HEAD.size
            if len(self._data) < length:
                return
            self.messages.append(marshal.loads(self._data[_HEAD.size : length]))
            self._data = self._data[length:]

    def kill(self):
        """SIGKILL, unless it has ended by itself; return whether it was killed."""
        os.kill(self.pid, signal.SIGKILL)
        self.read()
        return self.reap() == -signal.SIGKILL

    def end(self, seconds=PATIENCE):
        """Wait for its end; a process that does not come to one is a fault, as is any it told."""
        if not self.read(seconds):
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(0.3)
            self.kill()
            raise Fault("hung", self._told())
        self.reap()
        self.raise_faults()
        return self.messages

    def raise_faults(self):
        """Raise the fault that the process found, if any."""
        for message in self.messages:
            if message[0] == "fault":
                raise Fault(message[1], message[2])

    def reap(self):
        """Exit status: 0, or minus the number of the signal."""
        if self.status is None:
            os.close(self._out)
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def _told(self):
        last = [message for message in self.messages if message[0] == "begin"][-1:]
        with open(self._stderr, errors="replace") as stream:
            return f"during {last}: {stream.read()[-3000:]}"


def kind_and_text(error):
    """What an error means that nobody expected: whose it is, and where it came from."""
    text = text_of(error)
    if isinstance(error, SghashError):
        return "refused without reason", text
    frames = traceback.extract_tb(error.__traceback__)
    inside = any("/sghash/" in frame.filename for frame in frames)
    return ("raw error" if inside else "the stress programme itself failed"), text


def _live(job, into, stderr):
    def tell(message):
        data = marshal.dumps(message)
        data = memoryview(_HEAD.pack(len(data)) + data)
        while len(data):
            data = data[_write(into, data) :]

    try:
        gc.disable()  # what the parent holds is not ours to look through
        handle = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 2)
        sys.unraisablehook = lambda unraisable: None
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        job(tell)
    except Fault as fault:
        tell(("fault", fault.kind, fault.text))
    except BaseException as error:
        tell(("fault", *kind_and_text(error)))
    finally:
        _exit(0)
