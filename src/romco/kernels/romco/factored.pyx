"""ROMCO on a factorised U: the paper's iterates, at a cost that knows neither d nor m.

The paper's step (eqs. 11, 13 and 19) is U <- prox(U - eta1 G). G has the rank of the round's active
events, and the prox only rescales singular values, so U is kept as

    U = L K R'     L (d, r) and R (m, r') orthonormal, K small

and a round goes through three moves:

    reach     each active event (x, y, i) is written in both bases, x = L c and e_i =
              R q; then K += eta1 C y c q', or with another loss its slope for y
    shrink    K = Y diag(s) Z' by the SVD of a small matrix; K <- diag(f(s)), f the scalar prox
    turn      L <- L Y, R <- R Z

With few tasks R is the identity and K has a column for every task (`one_sided`); with many, R is
lazy like L (`two_sided`). docs/decisions/factored-core.md has the algorithm and its invariants.
"""

import numpy as np
from romco.kernels.romco.basis cimport LazyBasis
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, square
from romco.kernels.core.memory cimport release, reserve
from romco.kernels.romco.rules cimport Rules
from romco.kernels.romco.spectral cimport SmallSVD
from romco.kernels.core.triangles cimport upper_times

from romco.kernels.romco import basis_state
from romco.kernels.romco.personal import personal_part

MOST_ROUNDS = 1 << 62
DAMAGED = "the state of the shared part does not fit together; was the file damaged?"


cdef class Factored(Kernel):
    """The round of ROMCO, whatever R is (abstract)."""

    def __init__(self, Rules rules, Py_ssize_t n_features, Py_ssize_t n_tasks, bint folds):
        self.rules = rules
        self.left = LazyBasis(n_features, folds)
        self.personal = personal_part(n_features, n_tasks, rules.eta2 * rules.lambda2)
        self.last_round = np.zeros(n_tasks, dtype=np.int64)
        self.svd = SmallSVD()

    def __dealloc__(self):
        release(self.core)
        release(self.c)
        release(self.pulls)

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        """(u_i + v_i) . x; takes notes of both bases and of V for `learn`."""
        cdef Py_ssize_t e
        cdef Row x
        cdef bint together
        self.start_round(self.followed)
        together = events.adjacent() and self.left.look_at_all(events.row(begin), end - begin)
        for e in range(begin, end):
            x = events.row(e)
            if together:
                self.left.recollect(e - begin, self.c)
            else:
                self.left.look(x, self.c)
            margins[e] = self.shared_margin(events.tasks[e]) \
                + self.personal.margin(events.tasks[e], x)
        if self.followed:
            self.keep_notes(events, begin, end)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        self.learn_weights(events, begin, end, margins)
        self.torn = False
        return 0

    cdef int learn_weights(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, active, touched = 0
        cdef double step, share, pull, norm2
        cdef Row x
        cdef bint noted = self.has_notes(events, begin, end)
        if not noted:
            self.start_round(False)
        reserve(<void**> &self.pulls, &self.pulls_room, end - begin, sizeof(double))
        active = self.rules.pulls(margins + begin, events.labels + begin, end - begin, self.pulls)
        step = self.rules.step(<double> (self.rounds + 1))
        self.torn = True
        self.rounds += 1
        share = self.count_share(events, begin, end)
        if active == 0 and not self.rules.always_prox:
            return 0
        self.left.fit(self.left.columns + active)
        if events.adjacent() and active > 1 and 2 * active >= end - begin:
            self.left.meet_all(events.row(begin), end - begin)
        for e in range(begin, end):
            pull = self.pulls[e - begin]
            if pull == 0.0:
                continue
            x = events.row(e)
            norm2 = square(x)
            if norm2 == 0.0:
                continue
            touched += x.n
            self.fit(self.height + 1, self.width + 1)
            self.left.reach(x, e - begin, norm2, self.c)
            self.step_along(
                events.tasks[e], e - begin, self.rules.eta1 * step * self.rules.C * pull
            )
            self.personal.add(
                events.tasks[e], x, self.rules.eta2 * step * self.rules.C * pull, norm2,
                step * share,
                noted and end - begin == 1,
            )
        if end - begin > 1:
            for e in range(begin, end):
                self.personal.prune(events.tasks[e], step * share)
        self.personal.clock += step * share
        return self.shrink(
            self.rules.rho(<double> self.rounds, step, share), self.rules.eta1 * step * share,
            touched, active,
        )

    cdef double count_share(self, Events events, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """The round's tasks, as a share of all that took part so far; 1 unless shares count."""
        cdef Py_ssize_t e, present = 0
        cdef long long* last
        for e in range(begin, end):
            last = &self.last_round[events.tasks[e]]
            if last[0] != self.rounds:
                self.n_seen += last[0] == 0
                last[0] = self.rounds
                present += 1
        return <double> present / <double> self.n_seen if self.rules.by_share else 1.0

    cdef int shrink(
        self, double rho, double step, Py_ssize_t touched, Py_ssize_t active
    ) except -1 nogil:
        """The prox: K's singular values shrink, and both bases turn so that K is diagonal."""
        cdef Py_ssize_t kept, n = self.height
        if n == 0:
            return 0
        self.svd.factor(self.core, n, self.width, self.ld, self.rules.least(rho))
        kept = self.svd.count
        if step > 0.0:
            kept = self.rules.shrink_all(self.svd.s, kept, rho, step)
        if 0 <= self.rules.max_rank < kept:
            self.truncations += 1
            kept = self.rules.max_rank
        self.height = kept
        self.left.turn(self.svd.left, kept)
        self.turn_right(kept)
        if self.left.settle(touched):  # L <- L R^-1, so K <- R K
            upper_times(self.left.triangle, self.core, kept, self.width, self.ld)
        return self.settle_right(active)

    # What the two roads must define.

    cdef void start_round(self, bint noting) noexcept nogil:
        """Forget the notes on the round before; whether to take notes on this one."""
        self.left.start_round(noting)

    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil:
        """u_i . x, where c holds the left coordinates of x."""
        return 0.0

    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil:
        """K += g c q'."""
        return 0

    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil:
        """K <- diag(s), R <- R Z."""
        return 0

    cdef int settle_right(self, Py_ssize_t active) except -1 nogil:
        return 0

    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil:
        """Room for a K of that size."""
        return 0

    cdef int fit_coordinates(self, Py_ssize_t rank) except -1 nogil:
        return reserve(<void**> &self.c, &self.c_room, rank, sizeof(double))

    # Tasks that come and go: K changes, the method does not

    def start_task(self, Py_ssize_t task, started):
        """u_task <- the sum of all u over the number of ``started`` tasks; u_task must be 0."""
        self.check_idle()
        self.drop_notes()
        self.start_round(False)
        self.fit(self.height + 1, self.width + 1)
        self.sum_columns(self.c)
        self.change_column(task, 1.0 / <double> started.number)

    def forget_task(self, Py_ssize_t task):
        """u_task <- 0, v_task <- 0."""
        self.check_idle()
        self.drop_notes()
        self.start_round(False)
        self.fit(self.height + 1, self.width + 1)
        self.one_column(task, self.c)
        self.change_column(task, -1.0)
        self.personal.forget(task)
        self.n_seen -= self.last_round[task] != 0
        self.last_round[task] = 0

    def mean_margins(self, Events events not None, double n_started):
        """Margins (n,) by the sum of all u over n_started; the events' tasks do not matter."""
        self.check_idle()
        mean, margins = np.zeros(self.height), np.zeros(events.n)
        cdef double[::1] a = mean, out = margins
        cdef Py_ssize_t e, j
        self.drop_notes()
        self.start_round(False)
        self.fit(self.height + 1, self.width + 1)
        self.sum_columns(self.c)
        for j in range(self.height):
            a[j] = self.c[j] / n_started
        for e in range(events.n):
            self.left.look(events.row(e), self.c)
            for j in range(self.height):
                out[e] += self.c[j] * a[j]
        return margins

    cdef int change_column(self, Py_ssize_t task, double g) except -1:
        """u_task += g L c, then K is made diagonal again."""
        self.torn = True
        self.step_along(task, 0, g)
        self.shrink(0.0, 0.0, 0, 1)
        self.torn = False
        return 0

    cdef int sum_columns(self, double* c) except -1:
        """c <- coordinates of the sum of all columns of U."""
        return 0

    cdef int one_column(self, Py_ssize_t task, double* c) except -1:
        """c <- coordinates of u_task."""
        return 0

    # Read-outs

    def left_vectors(self):
        """L (d, r)."""
        self.check_idle()
        return basis_state.vectors(self.left)

    def core_matrix(self):
        """K (r, w) as a copy."""
        self.check_idle()
        return self.give()

    cdef give(self):
        """K as a copy."""
        out = np.zeros((self.height, self.width))
        cdef double[:, ::1] view = out
        cdef Py_ssize_t i, j
        for i in range(self.height):
            for j in range(self.width):
                view[i, j] = self.core[i * self.ld + j]
        return out

    def personal_columns(self):
        """V (d, m)."""
        self.check_idle()
        return self.personal.columns()

    def personal_norms(self):
        """|v_i| (m,)."""
        self.check_idle()
        return self.personal.norms()

    def deviation(self):
        """The largest correction that orthonormality has needed so far."""
        return self.left.deviation

    def shared_arrays(self):
        """All that changes but R and V."""
        self.check_idle()
        core = np.zeros((self.left.ld, self.width))
        core[: self.height] = self.core_matrix()
        return {
            "core": core, "core_shape": np.array([self.height, self.width]),
            "counts": np.array([self.rounds, self.truncations], dtype=np.int64),
            "last_round": np.asarray(self.last_round),
            **{f"left_{name}": array for name, array in basis_state.arrays(self.left).items()},
            **{f"personal_{name}": array for name, array in self.personal.arrays().items()},
        }

    cdef load_shared(self, arrays, const double[:, :] core):
        self.personal.load(part(arrays, "personal_"))
        basis_state.load(self.left, part(arrays, "left_"))
        if self.left.rank != core.shape[0]:
            raise ValueError(DAMAGED)
        self.rounds, self.truncations = map(int, arrays["counts"])
        self.load_seen(arrays["last_round"])
        self.fit(core.shape[0], core.shape[1])
        self.height = core.shape[0]
        self.take(core)

    def load_seen(self, last):
        """Take over in which round each task last took part."""
        if len(last) > len(self.last_round) or not ((last >= 0) & (last <= self.rounds)).all():
            raise ValueError(DAMAGED)
        np.asarray(self.last_round)[: len(last)] = last
        self.n_seen = np.count_nonzero(last)

    cdef take(self, const double[:, :] core):
        """K <- core, of the size it has."""
        cdef Py_ssize_t i, j
        for i in range(core.shape[0]):
            for j in range(core.shape[1]):
                self.core[i * self.ld + j] = core[i, j]


def part(arrays, prefix):
    """The arrays whose name begins with the prefix, without it."""
    return {name[len(prefix):]: array for name, array in arrays.items() if name.startswith(prefix)}


def check_names(arrays, own, optional):
    """Refuse a state that lacks an array, has one too many, or one of another kind.

    V may be stored either way; `optional` are arrays that the other kind of kernel does not have.
    """
    stored = {f"personal_{name}" for name in ("values", "rooms", "keys", "numbers")}
    found = arrays.keys() - stored - optional
    if found != own.keys() - stored - optional:
        raise ValueError(f"state holds arrays {sorted(arrays)}, expected {sorted(own)}")
    for name in found | (arrays.keys() & own.keys()):
        if arrays[name].ndim != own[name].ndim or arrays[name].dtype != own[name].dtype:
            raise ValueError(
                f"state array {name!r} is {arrays[name].dtype}{list(arrays[name].shape)}, "
                f"expected {own[name].ndim} dimensions of {own[name].dtype}"
            )


def checked_core(arrays, most):
    """K as the state has it, with up to `most` columns; refuse counts that cannot be."""
    shape, counts = arrays["core_shape"], arrays["counts"]
    if not (
        shape.shape == counts.shape == (2,) and (counts >= 0).all() and (counts < MOST_ROUNDS).all()
        and 0 <= shape[0] <= arrays["core"].shape[0] and 0 <= shape[1] <= arrays["core"].shape[1]
        and shape[1] <= most
    ):
        raise ValueError(DAMAGED)
    return arrays["core"][: shape[0], : shape[1]]
