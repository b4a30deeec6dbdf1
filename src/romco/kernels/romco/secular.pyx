"""Left singular vectors of a diagonal matrix plus one of rank one, by two secular equations.

K = D + c q' is what an event makes of a diagonal K. With p = D q and b = q'q,

    K K' = D D' + u u' - v v'     u = (b c + p) / sqrt(b),  v = p / sqrt(b)

and a diagonal matrix plus or minus one of rank one has eigenvectors of a simple form: all it takes is
the roots of a rational function (LAPACK's dlaed4). So two such steps and one product of small
matrices take the place of the sweeps of plane rotations that a K far from diagonal needs. Squaring
loses digits of small singular values; a last sweep on K itself, by its owner, brings them back.
"""

cimport cython
from libc.math cimport copysign, fabs, fmax, frexp, isfinite, ldexp, sqrt
from libc.string cimport memset
from romco.kernels.core.dense cimport dot_product, multiply
from romco.kernels.core.memory cimport release, reserve
from scipy.linalg.cython_lapack cimport dlaed4

cdef enum:
    FACTORS = 8            # of a product before it is divided: numbers of 1e-15 do not underflow
cdef double CLOSE = 4e-16  # relative to the largest: entries and gaps below are rounding


@cython.final
cdef class SecularVectors:
    """Memory for the two steps, used again and again."""

    def __dealloc__(self):
        release(self.room)
        release(self.kept)

    cdef bint find(
        self, const double* d, const double* c, const double* q, Py_ssize_t n, Py_ssize_t w,
        double* vectors,
    ) except? False nogil:
        """Row j of vectors (n, n): the j-th left vector of K (n, w), largest first; or False.

        ``d`` (min(n, w),) falls and is not negative. What is found is orthonormal to rounding, and
        right to rounding of the largest squared singular value.
        """
        cdef Py_ssize_t i, few = min(n, w)
        cdef double b = dot_product(w, q, q), root = sqrt(b)
        cdef double *values
        cdef double *u
        cdef double *v
        cdef double *turned
        cdef double *first
        cdef double *second
        if not b > 0.0:
            return False
        reserve(<void**> &self.room, &self.room_size, 5 * n * n + 12 * n, sizeof(double))
        reserve(<void**> &self.kept, &self.kept_size, 2 * n, sizeof(Py_ssize_t))
        values, u, v, turned = self.room, self.room + n, self.room + 2 * n, self.room + 3 * n
        first, second = self.room + 12 * n, self.room + 12 * n + n * n
        for i in range(n):  # in rising order
            values[n - 1 - i] = d[i] * d[i] if i < few else 0.0
            v[n - 1 - i] = d[i] * q[i] / root if i < few else 0.0
            u[n - 1 - i] = root * c[i] + v[n - 1 - i]
        if not self.add_rank_one(values, u, n, first):
            return False
        for i in range(n):  # of the negative, which rises the other way round
            turned[n - 1 - i] = dot_product(n, first + i * n, v)
            u[n - 1 - i] = -values[i]
        for i in range(n):
            values[i] = u[i]
        if not self.add_rank_one(values, turned, n, second):
            return False
        # The smallest of the negative is the largest; columns go back to falling order of d.
        reverse(first, n * n)
        multiply(n, n, n, second, n, first, n, vectors, n)
        return True

    cdef bint add_rank_one(
        self, double* values, const double* z, Py_ssize_t n, double* rows
    ) except? False nogil:
        """Eigenvalues, rising, and eigenvectors (rows) of diag(values) + z z'; values rises."""
        cdef Py_ssize_t i, j, at
        cdef double rho = dot_product(n, z, z), largest, least
        cdef double *poles = self.room + 4 * n
        cdef double *unit = self.room + 5 * n
        cdef double *found = self.room + 6 * n
        cdef double *all_values = self.room + 7 * n
        cdef double *delta = self.room + 12 * n + 2 * n * n
        cdef double *small = delta + n * n
        cdef double *loose = small + n * n
        cdef Py_ssize_t *kept = self.kept
        cdef Py_ssize_t k = 0
        largest = fmax(fabs(values[0]), fabs(values[n - 1]))
        least = CLOSE * n * fmax(largest, rho)
        for i in range(n):
            if sqrt(rho) * fabs(z[i]) > least:
                kept[k] = i
                poles[k] = values[i]
                unit[k] = z[i]
                if k > 0 and poles[k] - poles[k - 1] < least:
                    poles[k] = poles[k - 1] + least
                k += 1
        if k == 0:
            memset(rows, 0, n * n * sizeof(double))
            for i in range(n):
                rows[i * n + i] = 1.0
            return True
        if k == n:  # roots lie between the poles, so they rise as well
            return self.solve(k, poles, unit, values, delta, rows, self.room + 8 * n)
        if not self.solve(k, poles, unit, found, delta, small, self.room + 8 * n):
            return False
        # Merge what was found with what stays as it is.
        memset(loose, 0, n * n * sizeof(double))
        j = 0
        for i in range(n):
            if j < k and kept[j] == i:
                all_values[i] = found[j]
                for at in range(k):
                    loose[i * n + kept[at]] = small[j * k + at]
                j += 1
            else:
                all_values[i] = values[i]
                loose[i * n + i] = 1.0
        self.sort_into(all_values, loose, n, values, rows)
        return True

    cdef bint solve(
        self, Py_ssize_t k, double* poles, double* z, double* found, double* delta, double* rows,
        double* room,
    ) noexcept nogil:
        """`found` and `rows` (k, k) <- eigenvalues and eigenvectors of diag(poles) + z z'.

        `delta` (k, k) and `room` (3 k,) are room. All is measured in a unit of about the largest, a power of two.
        """
        cdef Py_ssize_t i, j
        cdef double rho = dot_product(k, z, z), norm = 1.0 / sqrt(rho)
        cdef int n = <int> k, which, unit = 0, info = 0
        frexp(fmax(rho, fmax(fabs(poles[0]), fabs(poles[k - 1]))), &unit)
        rho = ldexp(rho, -unit)
        if not (isfinite(rho) and isfinite(norm) and rho > 0.0):
            return False
        for i in range(k):
            poles[i], z[i] = ldexp(poles[i], -unit), z[i] * norm
        for j in range(k):
            which = <int> j + 1
            dlaed4(&n, &which, poles, z, delta + j * k, &rho, found + j, &info)
            found[j] = ldexp(found[j], unit)
            if info != 0:
                return False
        if k <= 2:  # then LAPACK gives vectors
            for i in range(k * k):
                rows[i] = delta[i]
            return True
        return self.vectors(k, poles, z, delta, rows, room)

    cdef bint vectors(
        self, Py_ssize_t k, const double* poles, double* z, const double* delta, double* rows,
        double* room,
    ) noexcept nogil:
        """Eigenvectors from delta[j, i] = pole i - root j, orthonormal whatever the roots lack.

        By Loewner's formula they belong exactly to another z close to it, which is found from the
        roots (Gu and Eisenstat): the product over all j of delta[j, i] / (pole i - pole j).
        """
        cdef Py_ssize_t i, j
        cdef double keep, norm, total = 0.0
        cdef double* above = room
        cdef double* below = room + k
        cdef double* square = room + 2 * k
        for i in range(k):
            above[i] = below[i] = square[i] = 1.0
        for j in range(k):
            keep = below[j]
            for i in range(k):
                above[i] *= delta[j * k + i]
                below[i] *= poles[i] - poles[j]
            below[j] = keep
            if j % FACTORS == FACTORS - 1 or j == k - 1:
                for i in range(k):
                    square[i] *= above[i] / below[i]
                    above[i] = below[i] = 1.0
        for i in range(k):
            z[i] = copysign(sqrt(fabs(square[i])), z[i])
        for j in range(k):
            for i in range(k):
                rows[j * k + i] = z[i] / delta[j * k + i]
            norm = dot_product(k, rows + j * k, rows + j * k)
            total += norm
            norm = 1.0 / sqrt(norm)
            for i in range(k):
                rows[j * k + i] *= norm
        return isfinite(total)

    cdef void sort_into(
        self, const double* values, const double* rows, Py_ssize_t n, double* sorted_values,
        double* sorted_rows,
    ) noexcept nogil:
        """Rows by their values, rising."""
        cdef Py_ssize_t i, j, at
        cdef Py_ssize_t *order = self.kept + n
        for i in range(n):
            j = i
            while j > 0 and values[order[j - 1]] > values[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        for i in range(n):
            sorted_values[i] = values[order[i]]
            for at in range(n):
                sorted_rows[i * n + at] = rows[order[i] * n + at]


cdef void reverse(double* a, Py_ssize_t n) noexcept nogil:
    """The last first; of a matrix, both its rows and its columns."""
    cdef Py_ssize_t i
    cdef double keep
    for i in range(n // 2):
        keep = a[i]
        a[i] = a[n - 1 - i]
        a[n - 1 - i] = keep
