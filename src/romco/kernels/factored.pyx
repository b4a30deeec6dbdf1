"""ROMCO on a factorised U: the paper's iterates, at a cost that knows neither d nor m.

The paper's step (eqs. 13, 16 and 19) is U <- prox(U - eta1 G). G has the rank of the round's active
events, and the prox only rescales singular values, so U is kept as

    U = L K R'     L (d, r) and R (w, r') orthonormal, K small

and a round goes through three moves:

    reach     each active event (x, y, i) is written in both bases, x = L c and its task's
              vector = R q; then K += eta1 C y c q'
    shrink    K = Y diag(s) Z' by the SVD of a small matrix; K <- diag(f(s)), f the scalar prox
    turn      L <- L Y, R <- R Z

With few tasks R is the identity and K has a column for every task (:class:`FewTasks`); with
many, R is lazy like L (:class:`ManyTasks`).

A task's vector is e_i, the paper's method. With a *coupling* A = F F' between tasks it
is row i of F: the paper's method in the variable U~ with U = U~ F', which is gradient descent
in the metric of A. Singular values do not depend on which F is taken. For A = I + b 11' it
is e_i plus sqrt(b) times the vector of one more task that all others share.
"""

import numpy as np
cimport cython
from libc.math cimport sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from romco.kernels.basis cimport LazyBasis
from romco.kernels.contract cimport Kernel
from romco.kernels.dense cimport axpy, dot_product, multiply, reserve
from romco.kernels.events cimport Events, Row, square
from romco.kernels.personal cimport Personal
from romco.kernels.spectral cimport Shrink, SmallSVD, shrink_logdet, shrink_nuclear

from romco.kernels.personal import personal_part

DAMAGED = "the state of the shared part does not fit together; was the file damaged?"


@cython.final
cdef class Rules:
    """The numbers of a ROMCO learner: what to learn from, how far to go, how much to shrink."""

    cdef readonly double eta1, eta2, lambda1, lambda2, C
    cdef readonly bint on_mistake, always_prox, step_decays
    cdef readonly Py_ssize_t max_rank
    cdef double rho_power            # rho_t = t ** -power; negative: eta1 lambda1
    cdef Shrink shrink

    def __init__(
        self, *, bint logdet, double eta1, double eta2, double lambda1, double lambda2, double C,
        bint on_mistake, bint always_prox, bint step_decays, double rho_power, Py_ssize_t max_rank,
    ):
        self.eta1, self.eta2, self.lambda1, self.lambda2, self.C = eta1, eta2, lambda1, lambda2, C
        self.on_mistake, self.always_prox, self.step_decays = on_mistake, always_prox, step_decays
        self.rho_power, self.max_rank = rho_power, max_rank
        self.shrink = shrink_logdet if logdet else shrink_nuclear

    cdef inline bint active(self, double margin, double y) noexcept nogil:
        """Whether an event teaches anything; a margin of 0 predicts +1."""
        if self.on_mistake:
            return (1.0 if margin >= 0.0 else -1.0) != y
        return 1.0 - y * margin > 0.0

    cdef inline double step(self, double t) noexcept nogil:
        return 1.0 / sqrt(t) if self.step_decays else 1.0

    cdef inline double rho(self, double t) noexcept nogil:
        if self.rho_power < 0.0:
            return self.eta1 * self.step(t) * self.lambda1
        return 1.0 / sqrt(t) if self.rho_power == 0.5 else 1.0 / t


@cython.final
cdef class TaskVectors:
    """Row i of F (m, w) for a coupling A = F F' of tasks: what stands for task i in U~."""

    cdef readonly Py_ssize_t width
    cdef double[:, ::1] factor       # F, where a whole matrix was given
    cdef int index[2]
    cdef double value[2]
    cdef int entries

    def __init__(self, Py_ssize_t n_tasks, double b, factor=None):
        self.width = n_tasks + (b > 0.0)
        self.entries = 1 if b == 0.0 else 2
        self.value[0], self.value[1] = (sqrt(b), 1.0) if b > 0.0 else (1.0, 0.0)
        self.factor = np.ascontiguousarray(factor, dtype=np.float64) if factor is not None else None

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

    def dense(self, n_tasks):
        """F (m, w)."""
        cdef Py_ssize_t i, k
        cdef Row f
        cdef double[:, ::1] out = np.zeros((n_tasks, self.width))
        for i in range(n_tasks):
            f = self.row(i)
            for k in range(f.n):
                out[i, k if f.index == NULL else f.index[k]] = f.value[k]
        return np.asarray(out)


cdef class Factored(Kernel):
    """The round of ROMCO, whatever R is (abstract)."""

    cdef Rules rules
    cdef TaskVectors tasks
    cdef LazyBasis left
    cdef Personal personal
    cdef SmallSVD svd
    cdef readonly long long rounds, truncations
    cdef double* core                # K (height, width), row-major
    cdef Py_ssize_t height, width, ld, core_room
    cdef double* c                   # coordinates of an event on the left
    cdef Py_ssize_t c_room

    def __init__(self, Rules rules, TaskVectors tasks, Py_ssize_t n_features, Py_ssize_t n_tasks):
        self.rules, self.tasks = rules, tasks
        self.left = LazyBasis(n_features, isinstance(self, FewTasks))
        self.personal = personal_part(n_features, n_tasks, rules.eta2 * rules.lambda2)
        self.svd = SmallSVD()

    def __dealloc__(self):
        free(self.core)
        free(self.c)

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        """(u_i + v_i) . x; leaves notes for `learn`, which always follows on the same events."""
        cdef Py_ssize_t e
        cdef Row x
        cdef bint together
        self.start_round()
        together = events.index == NULL and self.left.look_at_all(events.row(begin), end - begin)
        for e in range(begin, end):
            x = events.row(e)
            if together:
                self.left.recollect(e - begin, self.c)
            else:
                self.left.look(x, self.c)
            margins[e] = self.shared_margin(events.tasks[e]) \
                + self.personal.margin(events.tasks[e], x)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, active = 0, touched = 0
        cdef double step, y, norm2
        cdef Row x
        self.rounds += 1
        step = self.rules.step(<double> self.rounds)
        for e in range(begin, end):
            active += self.rules.active(margins[e], events.labels[e])
        if active == 0 and not self.rules.always_prox:
            return 0
        self.left.fit(self.left.columns + active)
        if events.index == NULL and active > 1 and 2 * active >= end - begin:
            self.left.meet_all(events.row(begin), end - begin)
        for e in range(begin, end):
            y = events.labels[e]
            if not self.rules.active(margins[e], y):
                continue
            x = events.row(e)
            norm2 = square(x)
            if norm2 == 0.0:
                continue
            touched += x.n
            self.fit(self.height + 1, self.width + 1)
            self.left.reach(x, e - begin, norm2, self.c)
            self.step_along(
                events.tasks[e], e - begin, self.rules.eta1 * step * self.rules.C * y
            )
            self.personal.add(
                events.tasks[e], x, self.rules.eta2 * step * self.rules.C * y, norm2, step,
                end - begin == 1,
            )
        if end - begin > 1:
            for e in range(begin, end):
                self.personal.prune(events.tasks[e], step)
        self.personal.tick(step)
        return self.shrink(self.rules.rho(<double> self.rounds), touched, active)

    cdef int shrink(self, double rho, Py_ssize_t touched, Py_ssize_t active) except -1 nogil:
        """The prox: K's singular values shrink, and both bases turn so that K is diagonal."""
        cdef Py_ssize_t kept = 0, n = self.height
        cdef double s
        if n == 0:
            return 0
        self.svd.factor(self.core, n, self.width, self.ld)
        while kept < self.svd.count:
            s = self.rules.shrink(self.svd.s[kept], rho)
            if s <= 0.0:
                break
            if kept == self.rules.max_rank:
                self.truncations += 1
                break
            self.svd.s[kept] = s
            kept += 1
        self.height = kept
        self.left.turn(self.svd.left, kept)
        self.turn_right(kept)
        if self.left.settle(touched):  # L <- L R^-1, so K <- R K
            upper_times(self.left.triangle, self.core, kept, self.width, self.ld)
        return self.settle_right(active)

    # What the two roads must define.

    cdef void start_round(self) noexcept nogil:
        self.left.start_round()

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

    # Tasks that come and go, without coupling: K changes, the method does not

    def start_task(self, Py_ssize_t task, double n_started):
        """u_task <- the sum of all u over n_started; u_task must be 0."""
        self.check_idle()
        self.start_round()
        self.fit(self.height + 1, self.width + 1)
        self.sum_columns(self.c)
        return self.change_column(task, 1.0 / n_started)

    def forget_task(self, Py_ssize_t task):
        """u_task <- 0, v_task <- 0."""
        self.check_idle()
        self.start_round()
        self.fit(self.height + 1, self.width + 1)
        self.one_column(task, self.c)
        self.change_column(task, -1.0)
        self.personal.forget(task)

    def mean_shared(self, double n_started):
        """The sum of all u over n_started, (d,)."""
        self.check_idle()
        mean = np.zeros(self.height)
        cdef double[::1] view = mean
        self.fit(self.height + 1, self.width + 1)
        self.sum_columns(self.c)
        for j in range(self.height):
            view[j] = self.c[j] / n_started
        return self.left.vectors() @ mean

    cdef int change_column(self, Py_ssize_t task, double g) except -1:
        """u_task += g L c, then K is made diagonal again."""
        self.step_along(task, 0, g)
        return self.shrink(0.0, 0, 1)

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
        return self.left.vectors()

    def core_matrix(self):
        """K (r, w) as a copy."""
        self.check_idle()
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
            **{f"left_{name}": array for name, array in self.left.arrays().items()},
            **{f"personal_{name}": array for name, array in self.personal.arrays().items()},
        }

    cdef load_shared(self, arrays, const double[:, :] core):
        cdef Py_ssize_t i, j
        self.personal.load(part(arrays, "personal_"))
        self.left.load(part(arrays, "left_"))
        if self.left.rank != core.shape[0]:
            raise ValueError(DAMAGED)
        self.rounds, self.truncations = map(int, arrays["counts"])
        self.fit(core.shape[0], core.shape[1])
        self.height = core.shape[0]
        for i in range(core.shape[0]):
            for j in range(core.shape[1]):
                self.core[i * self.ld + j] = core[i, j]


@cython.final
cdef class FewTasks(Factored):
    """R is the identity: K (r, w) holds U~ in the left basis, a column for every task."""

    def __init__(self, Rules rules, TaskVectors tasks, Py_ssize_t n_features, Py_ssize_t n_tasks):
        Factored.__init__(self, rules, tasks, n_features, n_tasks)
        self.width = self.ld = tasks.width
        self.fit(1, self.width)

    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil:
        cdef Row f = self.tasks.row(task)
        cdef Py_ssize_t j, k
        cdef double total = 0.0, along
        for k in range(f.n):
            along = 0.0
            for j in range(self.height):
                along += self.c[j] * self.core[j * self.ld + (k if f.index == NULL else f.index[k])]
            total += along * f.value[k]
        return total

    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil:
        cdef Row f = self.tasks.row(task)
        cdef Py_ssize_t j, k
        if self.left.rank > self.height:
            memset(self.core + self.height * self.ld, 0, self.width * sizeof(double))
            self.height += 1
        for j in range(self.height):
            for k in range(f.n):
                self.core[j * self.ld + (k if f.index == NULL else f.index[k])] += \
                    g * self.c[j] * f.value[k]
        return 0

    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil:
        cdef Py_ssize_t i, j
        for j in range(kept):
            for i in range(self.width):
                self.core[j * self.ld + i] = self.svd.s[j] * self.svd.right[j * self.width + i]
        return 0

    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil:
        reserve(<void**> &self.core, &self.core_room, height * self.ld, sizeof(double))
        return self.fit_coordinates(height + 1)

    cdef int sum_columns(self, double* c) except -1:
        cdef Py_ssize_t i, j
        for j in range(self.height):
            c[j] = 0.0
            for i in range(self.width):
                c[j] += self.core[j * self.ld + i]
        return 0

    cdef int one_column(self, Py_ssize_t task, double* c) except -1:
        cdef Py_ssize_t j
        for j in range(self.height):
            c[j] = self.core[j * self.ld + task]
        return 0

    def right_vectors(self):
        """R (w, w)."""
        return np.eye(self.width)

    def arrays(self):
        """All that changes, by name."""
        return self.shared_arrays()

    def load(self, arrays):
        """Take over the arrays of a kernel of this kind, of the same size or smaller."""
        check_names(arrays, self.arrays(), set())
        height, width = map(int, arrays["core_shape"])
        core = np.zeros((height, self.width))
        core[:, :width] = arrays["core"][:height]
        self.load_shared(arrays, core)


@cython.final
cdef class ManyTasks(Factored):
    """R is lazy too: no step of a round looks at all tasks."""

    cdef LazyBasis right
    cdef double* q
    cdef double* ones                # R'1, kept up so that the sum of U's columns is always known
    cdef double* spare
    cdef Py_ssize_t q_room, ones_room, spare_room

    def __init__(self, Rules rules, TaskVectors tasks, Py_ssize_t n_features, Py_ssize_t n_tasks):
        Factored.__init__(self, rules, tasks, n_features, n_tasks)
        self.right = LazyBasis(tasks.width)
        self.fit(1, 1)

    def __dealloc__(self):
        free(self.q)
        free(self.ones)
        free(self.spare)

    cdef void start_round(self) noexcept nogil:
        self.left.start_round()
        self.right.start_round()

    cdef double shared_margin(self, Py_ssize_t task) except? -1.0 nogil:
        cdef Py_ssize_t j
        cdef double total = 0.0
        self.right.look(self.tasks.row(task), self.q)
        for j in range(self.height):
            total += self.c[j] * dot_product(self.width, self.core + j * self.ld, self.q)
        return total

    cdef int step_along(self, Py_ssize_t task, Py_ssize_t event, double g) except -1 nogil:
        cdef Row f = self.tasks.row(task)
        cdef Py_ssize_t j
        self.right.reach(f, event, square(f), self.q)
        if self.left.rank > self.height:
            memset(self.core + self.height * self.ld, 0, self.width * sizeof(double))
            self.height += 1
        if self.right.rank > self.width:
            for j in range(self.height):
                self.core[j * self.ld + self.width] = 0.0
            # f = R q, so the new vector's entries add up to what makes both sides do so
            self.ones[self.width] = (
                total(f) - dot_product(self.width, self.q, self.ones)
            ) / self.q[self.width]
            self.width += 1
        for j in range(self.height):
            axpy(self.width, g * self.c[j], self.q, self.core + j * self.ld)
        return 0

    cdef int turn_right(self, Py_ssize_t kept) except -1 nogil:
        cdef Py_ssize_t j
        multiply(kept, self.width, 1, self.svd.right, self.width, self.ones, 1, self.spare, 1)
        self.ones, self.spare = self.spare, self.ones
        self.ones_room, self.spare_room = self.spare_room, self.ones_room
        self.right.turn(self.svd.right, kept)
        self.width = kept
        for j in range(kept):
            memset(self.core + j * self.ld, 0, kept * sizeof(double))
            self.core[j * self.ld + j] = self.svd.s[j]
        return 0

    cdef int settle_right(self, Py_ssize_t active) except -1 nogil:
        if self.right.settle(active):  # R <- R T^-1, so K <- K T'
            times_lower(self.core, self.right.triangle, self.height, self.width, self.ld)
            solve_transposed(self.right.triangle, self.ones, self.width)
        return 0

    cdef int sum_columns(self, double* c) except -1:
        cdef Py_ssize_t j
        for j in range(self.height):
            c[j] = dot_product(self.width, self.core + j * self.ld, self.ones)
        return 0

    cdef int one_column(self, Py_ssize_t task, double* c) except -1:
        cdef Py_ssize_t j
        self.right.look(self.tasks.row(task), self.q)
        self.start_round()
        for j in range(self.height):
            c[j] = dot_product(self.width, self.core + j * self.ld, self.q)
        return 0

    cdef int fit(self, Py_ssize_t height, Py_ssize_t width) except -1 nogil:
        """Rows and columns grow together; what is in K stays."""
        cdef Py_ssize_t j, ld = max(height, width)
        cdef double* wide
        if ld > self.ld:
            ld = ld + ld // 2 + 4
            wide = <double*> malloc(ld * ld * sizeof(double))
            if wide == NULL:
                with gil:
                    raise MemoryError("no room for a larger rank")
            for j in range(self.height):
                memcpy(wide + j * ld, self.core + j * self.ld, self.width * sizeof(double))
            free(self.core)
            self.core, self.ld = wide, ld
        reserve(<void**> &self.q, &self.q_room, ld + 1, sizeof(double))
        reserve(<void**> &self.ones, &self.ones_room, ld + 1, sizeof(double))
        reserve(<void**> &self.spare, &self.spare_room, ld + 1, sizeof(double))
        return self.fit_coordinates(ld + 1)

    def right_vectors(self):
        """R (w, r)."""
        self.check_idle()
        return self.right.vectors()

    def arrays(self):
        """All that changes, by name."""
        self.check_idle()
        right = {f"right_{name}": array for name, array in self.right.arrays().items()}
        ones = np.zeros(self.left.ld)
        ones[: self.width] = [self.ones[j] for j in range(self.width)]
        return {**self.shared_arrays(), **right, "right_ones": ones}

    def load(self, arrays):
        """Take over the arrays of a kernel of either kind, of the same size or smaller."""
        own = self.arrays()
        check_names(arrays, own, {name for name in own if name == "ones" or name[:6] == "right_"})
        height, width = map(int, arrays["core_shape"])
        core = arrays["core"][:height, :width]
        if "right_counts" in arrays:
            self.right.load(part(arrays, "right_"))
        else:  # few tasks have become many: K = (K Z) Z' with Z the directions of its rows
            values, vectors = np.linalg.svd(core, full_matrices=False)[1:]
            vectors = vectors[values > 0.0]
            self.right.take(np.ascontiguousarray(vectors.T))
            core = core @ vectors.T
        ones = arrays.get("right_ones", self.right.vectors().sum(axis=0))
        if self.right.rank != core.shape[1]:
            raise ValueError(DAMAGED)
        self.load_shared(arrays, core)
        self.width = core.shape[1]
        for j in range(self.width):
            self.ones[j] = ones[j]


cdef void upper_times(
    const double* upper, double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    """a (n, w) <- upper (n, n) a, in place."""
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(w):
            a[i * ld + j] *= upper[i * n + i]
        for j in range(i + 1, n):
            axpy(w, upper[i * n + j], a + j * ld, a + i * ld)


cdef void times_lower(
    double* a, const double* upper, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    """a (n, w) <- a upper', upper (w, w), in place."""
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(w):
            a[i * ld + j] = dot_product(w - j, a + i * ld + j, upper + j * w + j)


cdef void solve_transposed(const double* upper, double* a, Py_ssize_t n) noexcept nogil:
    """a (n,) <- upper'^-1 a, in place; 0 where a pivot is."""
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(i):
            a[i] -= upper[j * n + i] * a[j]
        a[i] = a[i] / upper[i * n + i] if upper[i * n + i] != 0.0 else 0.0


cdef double total(Row x) noexcept nogil:
    """Sum of a row's entries."""
    cdef double a = 0.0
    cdef Py_ssize_t k
    for k in range(x.n):
        a += x.value[k]
    return a


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
    height, width = arrays["core_shape"] if arrays["core_shape"].shape == (2,) else (-1, -1)
    if not (0 <= height <= len(arrays["core"]) and 0 <= width <= arrays["core"].shape[1]):
        raise ValueError(DAMAGED)
