"""Whose turn it is: the thread that answers goes before the one that learns.

Only one of them can run Python at a time. Who wants to waits for ``sys.getswitchinterval()`` and
then asks the other to stop; the interval is one for all threads. But the system may end a thread's
waits late, to save wake-ups, and by how much is each thread's own: so the thread that answers asks
at once, and the one that learns lets it finish. Where both would run on one processor, the system
is told by their niceness who goes first.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import final

# Seconds until the other thread is asked to stop: while predictions are asked for, and while they
# are not, since to change over often makes learning slower by a third.
PROMPT, PATIENT = (0.00002 if sys.platform == "linux" else 0.0001), 0.0005
AT_ONCE, USUAL, LATE = 1e-9, 0.00005, 0.0002  # how late waits may end; USUAL is Linux's own
TIMER_SLACK = 29  # PR_SET_TIMERSLACK
NICE = 3  # of the thread that learns; a larger one would keep it from giving back what it holds


def end_waits(within: float) -> None:
    """Let the waits of this thread end so many seconds late, where the system can be told.

    >>> end_waits(within=0.00005)
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(TIMER_SLACK, round(1e9 * within), 0, 0, 0)


def step_back() -> None:
    """Let this thread run after the others, where each can have a niceness of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


@final
class Turns:
    """How soon the thread that learns lets the other one go on, settled for each group anew.

    ``asked()`` counts the predictions so far; ``begin()`` is done by that thread, once.

    >>> before, asked = sys.getswitchinterval(), iter([0, 5, 5])
    >>> turns = Turns(lambda: next(asked), begin=lambda: None)
    >>> found = [(turns.settle(), sys.getswitchinterval())[1] for _ in range(3)]
    >>> [round(1e6 * interval) for interval in found] == [500, round(1e6 * PROMPT), 500]
    True
    >>> sys.setswitchinterval(before)
    >>> end_waits(within=USUAL)
    """

    def __init__(
        self, asked: Callable[[], int], begin: Callable[[], None] | None = step_back
    ) -> None:
        self._asked, self._before, self._prompt, self._begin = asked, 0, False, begin

    def settle(self) -> None:
        """Prompt, if there were predictions since the thread that learns called this last."""
        if self._begin is not None:
            self._begin()
            self._begin = None
        now = self._asked()
        prompt, self._before = now != self._before, now
        if prompt != self._prompt:
            end_waits(LATE if prompt else USUAL)
        self._prompt = prompt
        sys.setswitchinterval(PROMPT if prompt else PATIENT)
