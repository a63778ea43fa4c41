"""Locks that are free again in the child of a fork, and after Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from sghash.guards import Guard

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@needs_fork
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("by_itself", [False, True])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_guard_that_is_held_is_free_in_the_child(reentrant, by_itself):
    guard, held, done = Guard(reentrant=reentrant), threading.Event(), threading.Event()

    def hold():
        with guard.lock:
            held.set()
            done.wait(20)

    def fork():
        child = os.fork()
        if not child:
            taken = threading.Thread(target=guard.lock.acquire, daemon=True)
            taken.start()
            taken.join(10)
            os._exit(int(taken.is_alive()))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    if by_itself:
        with guard.lock:
            assert fork() == 0
    else:
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(20)
        assert fork() == 0
        done.set()
        thread.join()


def test_one_thread_at_a_time_and_again_if_reentrant():
    guard = Guard(reentrant=True)
    with guard.lock, guard.lock:
        other = threading.Thread(target=guard.lock.acquire, daemon=True)
        other.start()
        other.join(0.05)
        assert other.is_alive()
    other.join(10)
    assert not other.is_alive()


@pytest.mark.parametrize("reentrant", [False, True])
def test_ctrl_c_leaves_no_guard_taken(reentrant):
    """Whenever Python may deliver it: a function begins, or a C function returns."""
    for moment in range(1, 60):
        guard, left = Guard(reentrant=reentrant), moment

        def strike(frame, event, argument):
            nonlocal left
            left -= event in ("call", "c_return")
            if left == 0:
                raise KeyboardInterrupt

        def take(guard=guard):
            with guard.lock:
                pass

        try:
            sys.setprofile(strike)
            take()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        found = []
        thread = threading.Thread(target=lambda: found.append(guard.lock.acquire(timeout=0)))  # noqa: B023
        thread.start()
        thread.join()
        assert found == [True], moment
