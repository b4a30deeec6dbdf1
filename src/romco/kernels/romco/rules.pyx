"""The parts and numbers of a ROMCO learner."""

import numpy as np
cimport cython
from libc.math cimport exp, fmax, sqrt
from romco.kernels.romco.spectral cimport shrink_logdet, shrink_nuclear


cdef double pull_hinge(double margin, double y) noexcept nogil:
    return y if 1.0 - y * margin > 0.0 else 0.0


cdef double pull_squared_hinge(double margin, double y) noexcept nogil:
    return 2.0 * y * fmax(0.0, 1.0 - y * margin)


cdef double pull_logistic(double margin, double y) noexcept nogil:
    return y / (1.0 + exp(y * margin))


cdef double constant(double t) noexcept nogil:
    return 1.0


cdef double inverse_sqrt(double t) noexcept nogil:
    return 1.0 / sqrt(t)


cdef int find_loss(name, Pull* found) except -1:
    """Set the slope of a loss, downhill; NULL where it has no compiled twin."""
    if name is None:
        found[0] = NULL
    elif name == "hinge":
        found[0] = pull_hinge
    elif name == "squared-hinge":
        found[0] = pull_squared_hinge
    elif name == "logistic":
        found[0] = pull_logistic
    else:
        raise ValueError(f"there is no compiled loss {name!r}")
    return 0


cdef int find_penalty(name, Shrink* found) except -1:
    """Set what a penalty makes of a singular value; NULL where it has no compiled twin."""
    if name is None:
        found[0] = NULL
    elif name == "nuclear":
        found[0] = shrink_nuclear
    elif name == "logdet":
        found[0] = shrink_logdet
    else:
        raise ValueError(f"there is no compiled penalty on singular values {name!r}")
    return 0


cdef int find_step(name, Decay* found) except -1:
    """Set a step as a function of the round; NULL where it has no compiled twin."""
    if name is None:
        found[0] = NULL
    elif name == "constant":
        found[0] = constant
    elif name == "inverse-sqrt":
        found[0] = inverse_sqrt
    else:
        raise ValueError(f"there is no compiled step {name!r}")
    return 0


@cython.final
cdef class Rules:
    """The parts of a ROMCO learner: what to learn from, how far to go, how much to shrink.

    ``loss``, ``penalty`` (of U) and ``step`` are Python objects. Where one names a compiled twin, that is
    taken; else the object itself is called, which takes the GIL and some microseconds.
    """

    def __init__(
        self, *, loss, penalty, step, double eta1, double eta2, double lambda1, double lambda2,
        double C, bint on_mistake, bint always_prox, double rho_power, Py_ssize_t max_rank,
        bint by_share,
    ):
        self.eta1, self.eta2, self.C = eta1, eta2, C
        self.lambda1, self.lambda2 = lambda1, lambda2
        self.on_mistake, self.always_prox, self.by_share = on_mistake, always_prox, by_share
        self.rho_power, self.max_rank = rho_power, max_rank
        self.loss, self.penalty, self.decay = loss, penalty, step
        find_loss(loss.compiled, &self.pull)
        find_penalty(penalty.compiled, &self.shrink)
        find_step(step.compiled, &self.decays)

    cdef Py_ssize_t pulls(
        self, const double* margins, const double* labels, Py_ssize_t n, double* out
    ) except -1 nogil:
        """Which way and how strongly each event moves its margin, and how many do.

        With ``on_mistake`` only those that were wrong; a margin of 0 predicts +1.
        """
        cdef Py_ssize_t e, active = 0
        if self.pull == NULL:
            with gil:
                self.call_loss(margins, labels, n, out)
        for e in range(n):
            if self.pull != NULL:
                out[e] = self.pull(margins[e], labels[e])
            if self.on_mistake and (1.0 if margins[e] >= 0.0 else -1.0) == labels[e]:
                out[e] = 0.0
            active += out[e] != 0.0
        return active

    cdef int call_loss(
        self, const double* margins, const double* labels, Py_ssize_t n, double* out
    ) except -1:
        p = np.asarray(<const double[:n]> margins)
        slope = np.asarray(self.loss.slope(p, np.asarray(<const double[:n]> labels)))
        if slope.shape != (n,) or not np.isfinite(slope).all():
            raise FloatingPointError(f"{self.loss} must give {n} finite slopes; it gave {slope}")
        cdef double[:] pulls = <double[:n]> out
        np.asarray(pulls)[:] = -slope
        return 0

    cdef Py_ssize_t shrink_all(
        self, double* s, Py_ssize_t n, double rho, double step
    ) except -1 nogil:
        """Shrink singular values, largest first; gives how many are left.

        A penalty without a compiled twin knows its own strength, and is given the step.
        """
        cdef Py_ssize_t kept = 0
        if self.shrink == NULL and n > 0:
            with gil:
                self.call_penalty(s, n, step)
        while kept < n:
            if self.shrink != NULL:
                s[kept] = self.shrink(s[kept], rho)
            if s[kept] <= 0.0:
                break
            kept += 1
        return kept

    cdef int call_penalty(self, double* s, Py_ssize_t n, double step) except -1:
        values = np.asarray(<double[:n]> s)
        shrunk = np.asarray(self.penalty.shrink(values.copy(), step))
        if shrunk.shape != (n,) or not np.isfinite(shrunk).all() or not (
            (shrunk >= 0.0).all() and (np.diff(shrunk) <= 1e-12 * shrunk[0]).all()
        ):
            raise FloatingPointError(
                f"{self.penalty} must make a larger singular value of a larger one, and none "
                f"negative; of {values} it made {shrunk}"
            )
        values[:] = shrunk
        return 0

    cdef double called_decay(self, double t) except? -1e300 nogil:
        cdef double value
        with gil:
            value = self.decay(int(t))
            if not 0.0 < value < float("inf"):
                raise FloatingPointError(f"{self.decay} must be positive; in round {t} it is {value}")
        return value

