"""A lazy basis as arrays: to look at, to save, and to go on from bit for bit.

Sizes are rounded up, so that two states of a learner seldom differ in shape.
"""

import numpy as np
from libc.string cimport memset
from romco.kernels.romco.basis cimport LazyBasis
from romco.kernels.core.dense cimport dot_product
from romco.kernels.romco.changes cimport EPOCHS, Transform, allocate, forget
from romco.kernels.romco.rows cimport Head

cdef enum:
    MARGIN = 16           # columns to leave room for

MOST_BLOCKS = 1 << 10     # in a ring of transforms
MOST_EPOCHS = 1 << 30     # a row's epoch has 32 bits
NAMES = {"rows", "heads", "counts", "turned", "gram", "counted", "shapes", "transforms", "deviation"}
COUNTS = (
    "rank", "base", "columns", "epoch", "cursor", "started", "before", "ld", "blocks", "turns"
)
DAMAGED = "the state of the shared part does not fit together; was the file damaged?"


def vectors(LazyBasis basis not None):
    """L (size, rank) as a dense copy."""
    cdef double[:, ::1] L = np.zeros((basis.store.size, basis.rank))
    cdef Py_ssize_t slot, j, n
    cdef const double* row
    if basis.rank == 0:
        return np.asarray(L)
    for slot in range(basis.store.n_rows):
        row = basis.store.row(slot)
        n = (<const Head*> row).count
        if (<const Head*> row).epoch != basis.changes.epoch:
            if basis.changes.forgotten(row):
                continue
            basis.changes.catch_up(row, basis.fresh)
            row, n = basis.fresh, basis.changes.base
        else:
            row += 1
        for j in range(basis.rank):
            L[basis.store.owners[slot], j] = dot_product(n, basis.turned + j * basis.ld, row)
    return np.asarray(L)


def arrays(LazyBasis basis not None):
    """All that changes, by name, as copies."""
    rows = np.zeros((basis.store.n_rows, basis.store.width))
    heads = np.zeros((basis.store.n_rows, 3), dtype=np.int32)  # owner, epoch, count
    cdef double[:, ::1] values = rows
    cdef int[:, ::1] head = heads
    cdef Py_ssize_t slot, j
    cdef double* row
    for slot in range(basis.store.n_rows):
        row = basis.store.row(slot)
        head[slot, 0] = basis.store.owners[slot]
        head[slot, 1], head[slot, 2] = (<Head*> row).epoch, (<Head*> row).count
        for j in range(head[slot, 2]):
            values[slot, j] = row[1 + j]
    counts = [basis.rank, basis.changes.base, basis.columns, basis.changes.epoch, basis.cursor, basis.started,
              basis.changes.started_before, basis.ld, basis.changes.blocks, basis.turns]
    shapes, numbers = transforms(basis)
    return {
        "rows": rows, "heads": heads, "counts": np.array(counts, dtype=np.int64),
        "turned": copied(basis.turned, basis.rank, basis.columns, basis.ld),
        "gram": copied(basis.gram, basis.columns, basis.columns, basis.ld),
        "counted": copied(basis.counted, basis.columns, basis.columns, basis.ld),
        "shapes": shapes, "transforms": numbers,
        "deviation": np.array([basis.deviation]),
    }


cdef transforms(LazyBasis basis):
    """Shapes (n, 2) and numbers, end to end, of the steps and leaps that rows may need."""
    cdef Py_ssize_t i, first = basis.changes.started_before
    shapes, numbers = [], []
    for i in range(first, basis.changes.epoch):
        keep(basis.changes.steps[i % (basis.changes.blocks * EPOCHS)], shapes, numbers)
    for i in range(first // EPOCHS, basis.changes.epoch // EPOCHS):
        keep(basis.changes.leaps[i % basis.changes.blocks], shapes, numbers)
    size = sum(len(part) for part in numbers)
    padded = np.zeros(max(4096, 1 << int(size).bit_length()))  # sizes that seldom change
    padded[:size] = np.concatenate(numbers) if numbers else []
    table = np.zeros((max(64, 1 << len(shapes).bit_length()), 2), dtype=np.int64)
    table[: len(shapes)] = np.array(shapes).reshape(-1, 2)
    return table, padded


def load(LazyBasis basis not None, arrays):
    """Take over the arrays of a basis of this size or smaller; this one must be new."""
    cdef Py_ssize_t slot, j, first, i, blocks, at = 0
    check(arrays, basis.store.size)
    cdef const double[:, :] values = arrays["rows"]
    cdef const int[:, :] head = arrays["heads"]
    cdef double* row
    basis.store.width = max(basis.store.width, values.shape[1])
    basis.fit_exactly(len(arrays["turned"]))  # while there are no columns yet to keep
    (basis.rank, basis.changes.base, basis.columns, basis.changes.epoch, basis.cursor, basis.started,
     basis.changes.started_before, j, blocks, basis.turns) = map(int, arrays["counts"])
    basis.changes.make_ring(blocks)
    basis.deviation = arrays["deviation"][0]
    paste(arrays["turned"], basis.turned, basis.ld)
    paste(arrays["gram"], basis.gram, basis.ld)
    paste(arrays["counted"], basis.counted, basis.ld)
    for slot in range(values.shape[0]):
        basis.store.slot_of(head[slot, 0], basis.changes.epoch)
        row = basis.store.row(slot)
        (<Head*> row).epoch, (<Head*> row).count = head[slot, 1], head[slot, 2]
        for j in range(head[slot, 2]):
            row[1 + j] = values[slot, j]
    shapes, numbers = arrays["shapes"], arrays["transforms"]
    first = basis.changes.started_before
    for i in range(first, basis.changes.epoch):
        at += fill(&basis.changes.steps[i % (basis.changes.blocks * EPOCHS)], shapes[i - first], numbers[at:])
    shapes = shapes[basis.changes.epoch - first :]
    first //= EPOCHS
    for i in range(first, basis.changes.epoch // EPOCHS):
        at += fill(&basis.changes.leaps[i % basis.changes.blocks], shapes[i - first], numbers[at:])


def take(LazyBasis basis not None, const double[:, :] vectors):
    """Become the given vectors (n, rank), n up to `size`; this basis must be new."""
    cdef Py_ssize_t i, j, slot, r = vectors.shape[1]
    basis.fit(r + MARGIN)
    basis.rank = basis.changes.base = basis.columns = r
    memset(basis.turned, 0, r * basis.ld * sizeof(double))
    memset(basis.gram, 0, r * basis.ld * sizeof(double))
    memset(basis.counted, 0, r * basis.ld * sizeof(double))
    for j in range(r):
        basis.turned[j * basis.ld + j] = basis.gram[j * basis.ld + j] = 1.0
    for i in range(vectors.shape[0]):
        if not np.any(vectors[i]):
            continue
        slot = basis.store.slot_of(i, basis.changes.epoch)
        for j in range(r):
            basis.store.row(slot)[1 + j] = vectors[i, j]
        (<Head*> basis.store.row(slot)).count = <int> r


cdef copied(const double* a, Py_ssize_t rows, Py_ssize_t cols, Py_ssize_t ld):
    """The matrix in an array of size (ld, ld), so that its size seldom changes."""
    out = np.zeros((ld, ld))
    cdef double[:, ::1] view = out
    cdef Py_ssize_t i, j
    for i in range(rows):
        for j in range(cols):
            view[i, j] = a[i * ld + j]
    return out


cdef paste(const double[:, :] a, double* out, Py_ssize_t ld):
    cdef Py_ssize_t i, j
    for i in range(min(ld, a.shape[0])):
        for j in range(min(ld, a.shape[1])):
            out[i * ld + j] = a[i, j]


cdef keep(Transform a, list shapes, list numbers):
    shapes.append((a.rows, a.cols))
    if a.data == NULL:
        numbers.append(np.zeros(a.rows * a.cols))
    elif a.rows * a.cols:
        numbers.append(np.asarray(<double[:a.rows * a.cols]> a.data).copy())


cdef Py_ssize_t fill(Transform* a, shape, const double[:] numbers) except -1:
    cdef Py_ssize_t i
    cdef bint nothing = True
    allocate(a, shape[0], shape[1])
    for i in range(a.rows * a.cols):
        a.data[i] = numbers[i]
        nothing = nothing and numbers[i] == 0.0
    if nothing:
        forget(a)
    return a.rows * a.cols


cdef check(arrays, size):
    """Refuse arrays that no basis of this size can have given.

    Everything that is used as a size or as a place is compared with what it is a size or a
    place of, singly before any two are multiplied or added.
    """
    if arrays.keys() != NAMES or arrays["counts"].shape != (10,) or arrays["deviation"].shape != (1,):
        raise ValueError(DAMAGED)
    counts = dict(zip(COUNTS, map(int, arrays["counts"])))
    if not (fits_counts(counts, arrays) and fits_transforms(counts, arrays)
            and fits_heads(counts, arrays, size)):
        raise ValueError(DAMAGED)


cdef bint fits_counts(counts, arrays):
    """Whether the counts are possible: those of columns, of rows, and the ages."""
    ld, epoch, blocks = counts["ld"], counts["epoch"], counts["blocks"]
    a_pass = max(1, (blocks // 2 - 1) * EPOCHS)  # epochs in which the cursor passes all rows
    return (
        0 <= counts["rank"] <= counts["columns"] and 0 <= counts["base"] <= counts["columns"]
        and counts["columns"] <= arrays["rows"].shape[1] <= ld
        and all(arrays[name].shape == (ld, ld) for name in ("turned", "gram", "counted"))
        and 4 <= blocks <= MOST_BLOCKS and 0 <= counts["turns"] < MOST_EPOCHS
        and 0 <= counts["before"] <= counts["started"] <= epoch < MOST_EPOCHS
        and counts["started"] - counts["before"] <= a_pass and epoch - counts["started"] <= a_pass
        and arrays["heads"].shape == (len(arrays["rows"]), 3)
        and 0 <= counts["cursor"] <= len(arrays["rows"])
    )


cdef bint fits_transforms(counts, arrays):
    """Whether each transform takes up what the one before it gives, and the last one the base."""
    epoch, before, base = counts["epoch"], counts["before"], counts["base"]
    shapes, first, open_block = arrays["shapes"], before // EPOCHS, epoch // EPOCHS
    n_steps, n_leaps = epoch - before, open_block - first
    if shapes.shape[1] != 2 or len(shapes) < n_steps + n_leaps:
        return False
    shapes = shapes[: n_steps + n_leaps]
    if shapes.min(initial=0) < 0 or shapes.max(initial=0) > counts["ld"]:
        return False
    if shapes.prod(axis=1).sum() > len(arrays["transforms"]):
        return False
    steps, leaps = shapes[:n_steps], shapes[n_steps:]
    block = np.arange(before, epoch) // EPOCHS
    closed = block < open_block
    gives = np.where(closed, leaps[np.where(closed, block - first, 0), 0] if n_leaps else 0, base)
    start = leaps[n_leaps - 1, 1] if n_leaps else 0  # columns with which the open block began
    takes = base if epoch % EPOCHS == 0 else steps[open_block * EPOCHS - before, 0] if n_leaps else 0
    return (
        (steps[:, 1] == gives).all() and (leaps[:, 1] == start).all()
        and (not n_leaps or (start == base if epoch % EPOCHS == 0 else start <= takes))
    )


cdef bint fits_heads(counts, arrays, size):
    """Whether every row has an owner, is not too old, and has no more columns than its epoch."""
    owner, age, count = arrays["heads"].T
    before, n_steps = counts["before"], counts["epoch"] - counts["before"]
    if not len(owner):
        return True
    if not (0 <= owner.min() and owner.max() < size and len(np.unique(owner)) == len(owner)):
        return False
    if age.min() < before or age.max() > counts["epoch"] or count.min() < 0:
        return False
    limit = np.append(arrays["shapes"][:n_steps, 0], counts["columns"])
    return (
        (age[: counts["cursor"]] >= counts["started"]).all()
        and (count <= limit[age - before]).all() and count.max() <= arrays["rows"].shape[1]
    )
