"""A fair lock: handed on to the one who waits, and no interrupt can leave it held.

Ctrl-C raises between two bytecodes. In compiled code there are none, so that a lock that was
got here is released here, whatever happens meanwhile. ``with lock`` in Python has moments in
which it is not; ``with Hold(lock)`` has none.
"""

from cpython.pythread cimport PyThread_get_thread_ident
from threading import Lock


cdef class FairLock:
    """A lock that goes to the one who waits, not back to the one who just let go.

    With a plain lock a thread that learns piece after piece takes it again before a
    reader has woken up, and readers wait for seconds. Not to be entered twice by one thread.

    >>> lock = FairLock()
    >>> with lock:
    ...     pass
    """

    cdef object line  # held while waiting: by the first in line
    cdef object turn
    cdef unsigned long owner
    cdef object __weakref__

    def __init__(self):
        self.line, self.turn = Lock(), Lock()

    def acquire(self):
        """Wait for the turn; where the waiting is interrupted, nothing is held."""
        self.line.acquire()
        try:
            self.turn.acquire()
            self.owner = PyThread_get_thread_ident()
        finally:
            self.line.release()

    def acquire_at_once(self):
        """Whether the turn could be had without waiting."""
        if not self.turn.acquire(False):
            return False
        self.owner = PyThread_get_thread_ident()
        return True

    def release(self):
        """Let the next one in."""
        self.owner = 0
        self.turn.release()

    def is_mine(self):
        """Whether this thread has the turn."""
        return self.turn.locked() and self.owner == PyThread_get_thread_ident()

    def forget_others(self):
        """After a fork, where only this thread lives on: nobody else waits or holds."""
        self.line = Lock()
        if not self.is_mine():
            self.turn = Lock()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


cdef class Hold:
    """``with Hold(lock)``: the lock is held, and no interrupt can leave it so.

    An interrupt may fall between the last line of the block and the end of ``with``, so that
    ``__exit__`` is not called: then nothing refers to this object any more, and that releases the
    lock. With ``give``, ``with Hold(lock, give) as value`` binds what it returns under the lock.

    >>> lock = Lock()
    >>> with Hold(lock, list) as value:
    ...     lock.locked(), value
    (True, [])
    >>> lock.locked()
    False
    """

    cdef object lock, give
    cdef bint held

    def __init__(self, lock, give=None):
        self.lock, self.give = lock, give

    def __enter__(self):
        self.lock.acquire()
        self.held = True
        if self.give is None:
            return None
        try:
            return self.give()
        except BaseException:
            self.release()
            raise

    def __exit__(self, *_):
        self.release()

    def __del__(self):
        self.release()

    cdef release(self):
        if self.held:
            self.held = False
            self.lock.release()
