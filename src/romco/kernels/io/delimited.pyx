"""Rows of comma- or tab-separated text, from bytes straight to sparse rows."""

import numpy as np
cimport cython
from romco.kernels.core.memory cimport release, reserve
from romco.kernels.io.encoder cimport Encoder, is_ascii, strip
from romco.kernels.io.lexicon cimport Lexicon, begin_hash

cdef enum:
    COMPLETE, CUT, MISQUOTED, UNCLOSED, UNEVEN
cdef enum:
    OF_TASK = -2
    OF_LABEL = -3
    MAX_NAMES = 1000000  # of tasks and labels, remembered by a reader
UNUSED, TASK, LABEL = -1, OF_TASK, OF_LABEL  # parts that a column may play beside that of a feature


cdef struct Cell:
    Py_ssize_t begin, end
    bint quoted  # holds "" for "


@cython.final
cdef class Delimited:
    """Reads rows, as cells or into an encoder.

    Quotes are as in RFC 4180: a cell that begins with one ends with one, may hold line ends,
    and has "" for ". Lines end with \\n, \\r\\n or \\r; empty ones are passed over.

    ``passed`` are the rows of the last call, of all tasks and bad ones.
    """

    cdef Encoder encoder
    cdef Lexicon names
    cdef long long[::1] roles
    cdef unsigned char mark
    cdef bint labelled
    cdef readonly object owns
    cdef Cell* cells
    cdef char* scratch
    cdef char* own  # whether rows of a name are read, for the first ``n_own`` names
    cdef Py_ssize_t n_cells, room_cells, room_scratch, room_own, n_own, next_line, begun, done
    cdef public Py_ssize_t line  # of the next row
    cdef public Py_ssize_t passed

    def __init__(self, bytes delimiter):
        self.names, self.mark, self.line = Lexicon(), delimiter[0], 1

    def encode_into(self, Encoder encoder not None, roles, bint labelled, owns=None):
        """Prepare :meth:`read`: ``roles`` has each column's number in the encoder, or its part.

        Where ``owns(name)`` is false only the task of a row is read; None is a task that cannot be.
        """
        self.encoder, self.labelled, self.owns = encoder, labelled, owns
        self.roles = np.array(roles, dtype=np.int64)

    def __dealloc__(self):
        release(self.cells)
        release(self.scratch)
        release(self.own)

    def split_rows(self, bytes data, Py_ssize_t at, bint last, Py_ssize_t most):
        """Split up to ``most`` rows from byte ``at`` on, without encoding them.

        Gives line and cells of each, the next byte, and (line, reason) of a bad row, at which
        splitting stops, or None.
        """
        cdef const unsigned char* text = <const unsigned char*> <const char*> data
        cdef int how
        rows = []
        while len(rows) < most and at < len(data):
            how = self.split(text, len(data), &at, last)
            if how == CUT:
                break
            self.begun, self.line = self.line, self.next_line
            if how != COMPLETE:
                return rows, at, (self.begun, reason(how, self.mark))
            if self.n_cells:
                rows.append((self.begun, [self.cell_bytes(data, k) for k in range(self.n_cells)]))
        self.passed = len(rows)
        return rows, at, None

    def read(self, const unsigned char[::1] data, Py_ssize_t at, bint last, Py_ssize_t most):
        """Up to ``most`` rows from byte ``at`` on, and where the next one begins.

        Gives lists of tasks, labels and lines, and of the rows' ends among the encoder's entries;
        the next byte; and (line, reason or error) of a bad row, at which reading stops, or None.
        """
        if len(self.names) > MAX_NAMES:
            self.names, self.n_own = Lexicon(), 0
        tasks, labels = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
        lines, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        cdef int[::1] task = tasks, label = labels
        cdef long long[::1] line = lines, end = ends
        cdef int how = COMPLETE
        cdef const unsigned char* text = &data[0] if data.shape[0] else NULL
        bad = None
        self.done = self.passed = 0
        if most > 0:
            try:
                with nogil:
                    how = self.rows(
                        text, data.shape[0], &at, last, most, &task[0], &label[0], &line[0], &end[0]
                    )
            except Exception as refused:
                self.encoder.n = self.encoder.row
                bad = (self.begun, refused)
        if how == UNEVEN:
            told = f"has {self.n_cells} cells where the header has {self.roles.shape[0]}"
            bad = (self.begun, told)
        elif how == MISQUOTED or how == UNCLOSED:
            bad = (self.begun, reason(how, self.mark))
        self.names.tell()
        n = self.done
        self.passed += bad is not None
        if bad is not None and (how != COMPLETE or task[n] < 0) and not self.is_own(-1):
            bad = None
        cdef list names = self.names.names
        named = [[names[k] if k >= 0 else None for k in one[:n].tolist()] for one in (tasks, labels)]
        return *named, lines[:n].tolist(), ends[:n].tolist(), at, bad

    cdef int rows(
        self, const unsigned char* data, Py_ssize_t size, Py_ssize_t* at, bint last,
        Py_ssize_t most, int* task, int* label, long long* line, long long* end
    ) except -1 nogil:
        """Split and encode rows until ``most`` are passed, or one is cut or bad: tells which."""
        cdef int how
        cdef bint own
        while self.passed < most and at[0] < size:
            how = self.split(data, size, at, last)
            if how == CUT:
                return CUT
            self.begun, self.line = self.line, self.next_line
            if how != COMPLETE:
                return how
            if self.n_cells == 0:
                continue
            if self.n_cells != self.roles.shape[0]:
                return UNEVEN
            self.encoder.row = self.encoder.n
            task[self.done] = label[self.done] = -1
            own = self.encode(data, &task[self.done], &label[self.done])
            self.passed += 1
            if own:
                line[self.done], end[self.done] = self.begun, self.encoder.n
                self.done += 1
        return COMPLETE

    cdef bint encode(self, const unsigned char* data, int* task, int* label) except -1 nogil:
        """The cells of the row that was split: names first, as the plain way has it.

        False where the row is not read, for its task is not owned.
        """
        cdef Py_ssize_t k, n = 0
        cdef const char* text
        for k in range(self.n_cells):
            if self.roles[k] == OF_TASK:
                text = self.cell_text(data, k, &n)
                task[0] = self.named(k, text, n, True)
        if not self.is_own(task[0]):
            return False
        for k in range(self.n_cells):
            if self.roles[k] == OF_LABEL:
                text = self.cell_text(data, k, &n)
                label[0] = self.named(k, text, n, self.labelled)
        for k in range(self.n_cells):
            if self.roles[k] >= 0:
                text = self.cell_text(data, k, &n)
                self.encoder.cell(self.roles[k], text, n)
        return True

    cdef bint is_own(self, int name) except -1 nogil:
        """Whether rows of a task are read; -1 is one that cannot be."""
        if self.owns is None:
            return True
        if name < 0 or name >= self.n_own:
            with gil:
                if name < 0:
                    return self.owns(None)
                self.names.tell()
                reserve(<void**> &self.own, &self.room_own, name + 1, 1)
                while self.n_own <= name:
                    self.own[self.n_own] = bool(self.owns(self.names.names[self.n_own]))
                    self.n_own += 1
        return self.own[name]

    cdef int named(
        self, Py_ssize_t k, const char* text, Py_ssize_t n, bint needed
    ) except -2 nogil:
        """The number of a task's or label's name; -1 if it is missing and need not be there."""
        if not is_ascii(text, n):
            with gil:
                return self.named_beyond(k, text, n, needed)
        strip(&text, &n)
        return self.numbered(k, text, n, needed)

    cdef int named_beyond(
        self, Py_ssize_t k, const char* text, Py_ssize_t n, bint needed
    ) except -2:
        """The same of a name that is not ASCII."""
        cdef bytes kept
        try:
            kept = text[:n].decode("utf-8").strip().encode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(k, "is not UTF-8 text") from None
        return self.numbered(k, kept, len(kept), needed)

    cdef int numbered(
        self, Py_ssize_t k, const char* text, Py_ssize_t n, bint needed
    ) except -2 nogil:
        if n == 0:
            if needed:
                with gil:
                    raise ValueError(k, "is missing")
            return -1
        return self.names.find(NULL, 0, begin_hash(text, n), text, n)

    cdef bytes cell_bytes(self, bytes data, Py_ssize_t k):
        cdef Cell* cell = &self.cells[k]
        text = data[cell.begin:cell.end]
        return text.replace(b'""', b'"') if cell.quoted else text

    cdef const char* cell_text(
        self, const unsigned char* data, Py_ssize_t k, Py_ssize_t* n
    ) except NULL nogil:
        """The text of a cell, in place or, where it holds quotes, in a place of its own."""
        cdef Cell* cell = &self.cells[k]
        cdef Py_ssize_t i, length = cell.end - cell.begin
        cdef const char* text = <const char*> data + cell.begin
        if not cell.quoted:
            n[0] = length
            return text
        reserve(<void**> &self.scratch, &self.room_scratch, length, 1)
        i = n[0] = 0
        while i < length:
            self.scratch[n[0]] = text[i]
            n[0] += 1
            i += 2 if text[i] == 34 else 1
        return self.scratch

    cdef int split(
        self, const unsigned char* text, Py_ssize_t n, Py_ssize_t* at, bint last
    ) except -1 nogil:
        """Find the cells of the row at ``at`` and go on to the next; nothing moves if it is cut."""
        cdef Py_ssize_t i = at[0], begin, lines = self.line
        cdef unsigned char c, mark = self.mark
        cdef bint quoted
        self.n_cells = 0
        if i < n and (text[i] == 10 or text[i] == 13):  # an empty line
            if text[i] == 13 and i + 1 == n and not last:
                return CUT
            i += 2 if text[i] == 13 and i + 1 < n and text[i + 1] == 10 else 1
            at[0], self.next_line = i, lines + 1
            return COMPLETE
        while True:
            quoted = False
            begin = i
            if i < n and text[i] == 34:
                i += 1
                begin = i
                while True:
                    while i < n and text[i] != 34:
                        if text[i] == 10 or (text[i] == 13 and not (i + 1 < n and text[i + 1] == 10)):
                            lines += 1
                        i += 1
                    if i >= n:
                        if not last:
                            return CUT
                        at[0], self.next_line = n, lines + 1
                        return UNCLOSED
                    if i + 1 < n and text[i + 1] == 34:
                        quoted = True
                        i += 2
                        continue
                    if i + 1 == n and not last:
                        return CUT
                    break
                self.keep(begin, i, quoted)
                i += 1
                if i < n and text[i] != mark and text[i] != 10 and text[i] != 13:
                    while i < n and text[i] != 10 and text[i] != 13:
                        i += 1
                    if i >= n and not last:
                        return CUT
                    if i < n:
                        i += 2 if text[i] == 13 and i + 1 < n and text[i + 1] == 10 else 1
                    at[0], self.next_line = i, lines + 1
                    return MISQUOTED
            else:
                while i < n:
                    c = text[i]
                    if c == mark or c == 10 or c == 13:
                        break
                    i += 1
                if i >= n and not last:
                    return CUT
                self.keep(begin, i, False)
            if i >= n:
                if not last:
                    return CUT
                break
            if text[i] == mark:
                i += 1
                continue
            if text[i] == 13 and i + 1 == n and not last:
                return CUT
            i += 2 if text[i] == 13 and i + 1 < n and text[i + 1] == 10 else 1
            break
        at[0], self.next_line = i, lines + 1
        return COMPLETE

    cdef int keep(self, Py_ssize_t begin, Py_ssize_t end, bint quoted) except -1 nogil:
        reserve(<void**> &self.cells, &self.room_cells, self.n_cells + 1, sizeof(Cell))
        self.cells[self.n_cells] = Cell(begin, end, quoted)
        self.n_cells += 1
        return 0


cdef reason(int how, unsigned char mark):
    shown = repr(chr(mark))
    if how == UNCLOSED:
        return f"not valid {shown}-separated text (unexpected end of data)"
    return f"not valid {shown}-separated text ({shown} expected after '\"')"
