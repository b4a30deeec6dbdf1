"""The numbers of a ROMCO learner, and the vectors that stand for its tasks."""

cimport cython
from libc.math cimport sqrt
from romco.kernels.events cimport Events, Row
from romco.kernels.romco.spectral cimport Shrink

ctypedef double (*Pull)(double margin, double y) noexcept nogil


@cython.final
cdef class Rules:
    cdef readonly double eta1, eta2, lambda1, lambda2, C
    cdef readonly bint on_mistake, always_prox, step_decays
    cdef readonly Py_ssize_t max_rank
    cdef double rho_power            # rho_t = t ** -power; negative: eta1 lambda1
    cdef Shrink shrink
    cdef Pull loss                   # its slope, downhill

    cdef inline double pull(self, double margin, double y) noexcept nogil:
        """Which way and how strongly an event moves its margin; a margin of 0 predicts +1."""
        if self.on_mistake and (1.0 if margin >= 0.0 else -1.0) == y:
            return 0.0
        return self.loss(margin, y)

    cdef inline double step(self, double t) noexcept nogil:
        return 1.0 / sqrt(t) if self.step_decays else 1.0

    cdef inline double rho(self, double t) noexcept nogil:
        if self.rho_power < 0.0:
            return self.eta1 * self.step(t) * self.lambda1
        return 1.0 / sqrt(t) if self.rho_power == 0.5 else 1.0 / t


cdef class TaskVectors:
    cdef readonly Py_ssize_t width
    cdef double[:, ::1] factor       # F, where a whole matrix was given
    cdef int index[2]
    cdef double value[2]
    cdef int entries

    # Look at events that were learned; true if it is time to couple the tasks anew.
    cdef bint learn(self, Events events, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

    @cython.final
    cdef inline Row row(self, Py_ssize_t task) noexcept nogil:
        """Valid until the next call."""
        cdef Row f
        if self.factor is not None:
            f.n, f.index, f.value = self.width, NULL, &self.factor[task, 0]
            return f
        self.index[0] = 0 if self.entries == 2 else <int> task
        self.index[1] = <int> task + 1
        f.n, f.index, f.value = self.entries, self.index, self.value
        return f
