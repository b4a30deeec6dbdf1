"""The two verbs of a learner, in C, and what may pass between them.

`score` gives margins, `learn` learns from the labels. A step is `score`, then `learn` on the same
events, with nothing in between. What `score` found out on the way may be worth keeping
until then, such as sums over an event's features that `learn` would have to form again. That is
what *notes* are for:

* Notes are scratch, in memory of the kernel's own. They are no state: `state` does not hold them,
  and what is learned must be the same, to rounding, with notes and without.
* While `score` runs, `followed` tells whether `learn` follows. Only then are notes worth taking.
* A `score` that took notes ends with `keep_notes(events, begin, end)`. A `learn` that wants them
  asks `has_notes(events, begin, end)`, and does all the work itself where that is false.
* Notes are true of one state and of one round. They end with the step, and with whatever else is
  asked of the kernel meanwhile; a kernel that changes its arrays in any other verb, or shares the
  notes' memory with another verb, calls `drop_notes` there.
"""

from romco.kernels.core.events cimport Events


cdef class Kernel:
    cdef bint busy    # a replay is under way
    cdef readonly Py_ssize_t done  # rounds that the last replay has learned
    cdef Py_ssize_t width  # numbers that `score` gives for each event: 1, or one for each class
    cdef bint torn    # set while a step is made that an error would leave half-made
    cdef bint frozen_predictions                 # no labels follow the `score` that is running
    cdef bint followed                           # `learn` follows the `score` that is running
    cdef void* noted                             # whose events there are notes of, NULL without
    cdef Py_ssize_t noted_begin, noted_end

    # Margins of events begin to end; changes nothing but the notes.
    # Those of event e begin at e * width.
    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil
    # Learn events begin to end. `margins` are what `score` gave for them in the present state.
    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil
    # Learn of events without labels what needs none.
    # A learner whose kernel does so says it by `uses_unlabelled`.
    cdef int notice(self, Events events, Py_ssize_t begin, Py_ssize_t end) except -1 nogil
    cdef check_between(self, Events events, Py_ssize_t begin, Py_ssize_t end)
    cdef int take_step(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil

    cdef inline void keep_notes(
        self, Events events, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """The kernel's notes are about these events, in the present state."""
        self.noted, self.noted_begin, self.noted_end = <void*> events, begin, end

    cdef inline bint has_notes(
        self, Events events, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """Whether the kernel's notes are about these events, in the present state."""
        return self.noted == <void*> events and self.noted_begin == begin \
            and self.noted_end == end

    cdef inline void drop_notes(self) noexcept nogil:
        """The kernel's notes are about nothing."""
        self.noted = NULL
