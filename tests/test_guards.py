"""Locks that are free again in the child of a fork."""

from __future__ import annotations

import os
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
        with guard:
            held.set()
            done.wait(20)

    def fork():
        child = os.fork()
        if not child:
            taken = threading.Thread(target=guard.__enter__, daemon=True)
            taken.start()
            taken.join(10)
            os._exit(int(taken.is_alive()))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    if by_itself:
        with guard:
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
    with guard, guard:
        other = threading.Thread(target=guard.__enter__, daemon=True)
        other.start()
        other.join(0.05)
        assert other.is_alive()
    other.join(10)
    assert not other.is_alive()
