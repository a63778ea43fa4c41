"""Ctrl-C at any moment at which Python may deliver it, once or twice in a row.

That is: in a disk call, when a function is entered, when a C function returns (all counted, so
that a program does the same when it is run again), or whenever a timer rings.
"""

from __future__ import annotations

import signal
import sys

from faults import Disk


class Interrupts(Disk):
    """Raises KeyboardInterrupt while `function` runs, and nowhere else."""

    kind = "interrupts"

    def __init__(self, root, rng, function):
        super().__init__(root)
        self.rng, self._code, self.doubles = rng, function.__code__, 0
        self._mode, self._left, self._again = "", 0, None
        signal.signal(signal.SIGALRM, self._ring)

    def arm(self):
        rng = self.rng
        self._mode = str(rng.choice(["disk", "calls", "calls", "timer", "none"]))
        double = rng.random() < 0.4
        self._again = None
        if self._mode == "disk":
            self._left = int(10 ** rng.uniform(0, 2.1))
            self._again = int(rng.integers(1, 25)) if double else None
        elif self._mode == "calls":
            # As many steps as the shortest and the longest operation have.
            self._left = int(10 ** rng.uniform(0.5, 4))
            self._again = int(10 ** rng.uniform(0, 2.5)) if double else None
        self.armed = True
        if self._mode == "timer":
            delay = 10 ** rng.uniform(-4.3, -2.2)
            again = 10 ** rng.uniform(-4.3, -3) if double else 0
            self._left = 1 + double
            signal.setitimer(signal.ITIMER_REAL, delay, again)
        if self._mode == "calls":
            sys.setprofile(self._profile)

    def disarm(self):
        self.armed = False
        sys.setprofile(None)
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _inside(self):
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code is self._code:
                return True
            frame = frame.f_back
        return False

    def _raise(self):
        if self._inside():
            self.fired += 1
            raise KeyboardInterrupt

    def before(self, name, data):
        self._step()

    def after(self, name):
        self._step()

    def _step(self):
        if self._mode != "disk":
            return
        self._left -= 1
        if self._left == 0:
            if self._again is not None:
                self._left, self._again = self._again, None
            self._raise()

    def _profile(self, frame, event, argument):
        """Python may deliver a signal where a function begins, and after a call of a C function."""
        if event not in ("call", "c_return") or not self.armed:
            return
        self._left -= 1
        if self._left <= 0:
            if self._again is not None:
                # A function that raises is no longer called: another one takes its turn.
                self._left, self._again = self._again, None
                sys.settrace(self._trace)
            self._raise()

    def _trace(self, frame, event, argument):
        if event == "call" and self.armed:
            self._left -= 1
            if self._left <= 0:
                sys.settrace(None)
                self._raise()

    def _ring(self, number, frame):
        self._left -= 1
        if self._left <= 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.armed:
            self._raise()
