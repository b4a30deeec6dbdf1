"""Calibration and counts of events, for compiled code that learns one at a time."""

from romco.kernels.core.events cimport Events


cdef class Scale:
    cdef public double log_a, curvature

    cpdef add(self, double margin, double y, double weight=*)
    cpdef double probability_of_one(self, double margin) noexcept


cdef class EventCounts:
    cdef public long long events
    cdef readonly object seen, since, started, feature_owners, class_owners
    cdef readonly Py_ssize_t n_started
    cdef long long[::1] seen_
    cdef unsigned char[::1] started_
    cdef long long[::1] feature_owners_, class_owners_

    # Count the first n events.
    cdef count(self, Events events, Py_ssize_t n)
