"""Locks of a model that neither an interrupt nor a fork can leave held."""

import concurrent.futures.thread  # noqa: F401 - see the end of this file
import os
import threading
import weakref

from romco.kernels.core.lock import FairLock, Hold

__all__ = ["FairLock", "Hold", "Locks"]


class Locks:
    """Two locks: ``writing`` for a whole batch that is learned, ``step`` for one look or chunk.

    A fork waits until no other thread is within a step. In the child, where only the thread
    that forked lives on, nobody else holds anything.
    """

    def __init__(self) -> None:
        self.writing = threading.RLock()
        self.step = FairLock()
        _ALL[id(self)] = weakref.ref(self)

    def forget_others(self) -> None:
        """Free what other threads held or waited for, in the child of a fork."""
        self.step.forget_others()
        if not self.writing._is_owned():  # type: ignore[attr-defined]
            self.writing = threading.RLock()


# By address, so that a new one takes the place of one that is gone: a WeakSet would run Python
# whenever one goes, and an interrupt that falls there is lost.
_ALL: dict[int, weakref.ref[Locks]] = {}
_forking = threading.Lock()  # one fork at a time
_held: list[FairLock] = []  # by the thread that forks


def _before() -> None:
    _forking.acquire()
    busy: FairLock | None = None
    while (busy := _acquire_all(busy)) is not None:  # its owner may wait for another: release these
        _release_all()


def _living() -> list[Locks]:
    return [locks for one in list(_ALL.values()) if (locks := one()) is not None]


def _acquire_all(busy: FairLock | None) -> FairLock | None:
    """Wait in line for the busy lock, if any, then acquire the others; return one that is busy."""
    if busy is not None:
        busy.acquire()
        _held.append(busy)
    for locks in _living():
        if not locks.step.is_mine():
            if not locks.step.acquire_at_once():
                return locks.step
            _held.append(locks.step)
    return None


def _release_all() -> None:
    while _held:
        _held.pop().release()


def _in_parent() -> None:
    _release_all()
    _forking.release()


def _in_child() -> None:
    _release_all()
    for locks in _living():
        locks.forget_others()
    _forking.release()


# What was registered last comes first before a fork. A pool of threads has a lock that it takes
# then, too, and that whoever is within a step may wait for to use the pool: so ours come first.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
