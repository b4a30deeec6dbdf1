"""History features: what a task's past labels were, in all and for each category.

A slot belongs to a task, or to a pair of a task and a category such as ``skill=7``. It keeps counts
of past labels, decayed means, the last label and when it came. The features of an event are computed
before its label is added, so a label is never visible to its own prediction.
"""

import numpy as np
from libc.math cimport isfinite, log1p
from libc.string cimport memcpy
from romco.kernels.core.memory cimport release, reserve

from romco.kernels.io.encoded import Encoded

cdef enum:                 # fields of a slot; for each label a count and decayed sums follow
    TICK                   # number of the observation that came last
    LAST_EVENT             # events of the task so far, with that one; 0 if there was none
    LAST_TIME
    LAST_LABEL             # place of the label in `labels`, or the number
    WEIGHT                 # decayed number of observations, one for each half-life


cdef class HistoryFeatures:
    """Compute history features of events and observe their labels.

    ``columns`` name the categorical columns that are crossed with the task. With ``number`` labels
    are numbers, else classes, which may appear at any time; None is a label that is not known and
    is not observed. When more than ``limit`` slots would be in use, the half that was observed
    longest ago is dropped.

    >>> history = HistoryFeatures(["skill"])
    >>> history.expand(["ann", "ann"], [{"skill=7": 1.0}, {"skill=7": 1.0}], ["right", "wrong"])[1]
    {'skill=7': 1.0, 'history.task.count=right': 0.6931471805599453, 'history.skill.count=right': 0.6931471805599453}
    """

    cdef readonly tuple columns, half_lives
    cdef readonly Py_ssize_t limit, used
    cdef readonly bint number, timed
    cdef readonly list labels   # classes in the order in which they appeared
    cdef dict slots             # by task: slot by category, "" for the task itself
    cdef double[:, ::1] table   # one row per slot
    cdef double[::1] decay      # per observation, one for each half-life
    cdef Py_ssize_t lives, width
    cdef double ticks
    cdef dict place_of          # by name of a feature: 1 + its history column, 0 if it has none
    cdef list names             # of the history features: by column, the task first
    cdef double[::1] values     # of one slot, in the order of the names
    cdef list undo              # for each observation since the last commit: slots and their numbers

    def __init__(self, columns, *, number=False, half_lives=(2.0, 8.0, 32.0), limit=1_000_000, timed=False):
        self.columns, self.half_lives = tuple(columns), tuple(map(float, half_lives))
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"history columns must differ; got {', '.join(self.columns)}")
        if limit < 2 + len(self.columns) or min(self.half_lives, default=0.0) <= 0.0:
            raise ValueError("expected half-lives above 0 and room for the slots of one event")
        self.number, self.timed, self.limit = number, timed, limit
        self.lives, self.decay = len(self.half_lives), np.exp2(-1.0 / np.array(self.half_lives))
        self.slots, self.undo, self.labels = {}, [], []
        self.used, self.ticks = 0, 0.0
        self.lay_out()
        self.table = np.zeros((64, self.width))

    cdef lay_out(self):
        """Set the width of slots and the names of features for the labels known now."""
        n = 1 if self.number else len(self.labels)
        self.width = WEIGHT + self.lives + n * (1 + self.lives)
        self.place_of, self.names = {}, []
        tails = ["count"] if self.number else [f"count={label}" for label in self.labels]
        signals = [f"={label}" for label in self.labels] if n > 2 else [""]
        tails += [f"mean{life:g}{signal}" for signal in signals for life in self.half_lives]
        tails += [f"last{signal}" for signal in signals] + ["gap"] + ["time"] * self.timed + ["new"]
        for column in ("task", *self.columns):
            self.names.append([f"history.{column}.{tail}" for tail in tails])
        self.values = np.zeros(len(tails))

    cdef double read(self, label) except? -1.0:
        """A label as a number: its place among the labels, which may grow, or itself."""
        if self.number:
            y = float(label)
            if not isfinite(y):
                raise ValueError(f"expected a finite number as label; got {label!r}")
            return y
        if label not in self.labels:
            self.labels.append(label)
            self.lay_out()
            table = np.zeros((self.table.shape[0], self.width))
            table[:, : self.table.shape[1]] = self.table
            self.table = table
        return self.labels.index(label)

    def expand(self, tasks, rows, labels=None, times=None):
        """Return rows with their history features; observe the labels where they are given.

        ``rows`` are mappings by name or an ``Encoded`` block. Labels are observed one after the other:
        a row has the history of the rows before it. :meth:`rollback` undoes observations until
        :meth:`commit`.
        """
        cdef Py_ssize_t i
        cdef Wider wider = Wider(rows) if isinstance(rows, Encoded) else None
        cdef list keys, found = []
        for i, task in enumerate(tasks):
            time = 0.0 if times is None else float(times[i])
            keys = self.keys(rows[i] if wider is None else wider.categories(self, i))
            row = {} if wider is not None else dict(rows[i])
            self.features(task, keys, time, row, wider)
            if wider is None:
                found.append(row)
            else:
                wider.end_row()
            if labels is None or labels[i] is None:
                self.undo.append(())
            else:
                self.observe(task, keys, labels[i], time)
        return found if wider is None else wider.block()

    cdef list keys(self, names):
        """The slots of an event: pairs of a history column (0 for the task) and a category."""
        cdef list keys = [(0, "")]
        cdef Py_ssize_t k
        for name in names:
            place = self.place_of.get(name)
            if place is None:
                place = 0
                for k, column in enumerate(self.columns):
                    if name.startswith(column + "="):
                        place = k + 1
                if len(self.place_of) > 1_000_000:
                    self.place_of.clear()
                self.place_of[name] = place
            if place:
                keys.append((place, name))
        return keys

    cdef int features(self, task, list keys, double time, dict row, Wider wider) except -1:
        """Add the features of an event to a row, or to a block."""
        cdef Py_ssize_t k, place
        cdef list names
        own = self.slots.get(task, {})
        whole = own.get("")
        cdef double event = 0.0 if whole is None else self.table[<Py_ssize_t> whole, LAST_EVENT]
        for place, category in keys:
            slot = own.get(category)
            names = self.names[place]
            if slot is None or self.table[<Py_ssize_t> slot, LAST_EVENT] == 0.0:
                self.values[:] = 0.0
                self.values[len(names) - 1] = 1.0
            else:
                self.describe(&self.table[<Py_ssize_t> slot, 0], event, time)
            if wider is not None:
                wider.push_all(self, place)
                continue
            for k in range(len(names)):
                if self.values[k] != 0.0:
                    row[names[k]] = self.values[k]
        return 0

    cdef void describe(self, const double* slot, double event, double time) noexcept:
        """Write the features of a slot to ``values``."""
        cdef Py_ssize_t n = 1 if self.number else len(self.labels), step = 1 + self.lives, k, h, at = 0
        cdef const double* sums = slot + WEIGHT + self.lives
        for k in range(n):
            self.values[at] = log1p(sums[k * step])
            at += 1
        for k in range(n if n > 2 else 1):
            for h in range(self.lives):
                if n == 2:
                    self.values[at] = sums[step + 1 + h] - sums[1 + h]
                else:
                    self.values[at] = sums[k * step + 1 + h]
                self.values[at] /= 1.0 + slot[WEIGHT + h]
                at += 1
        for k in range(n if n > 2 else 1):
            if self.number:
                self.values[at] = slot[LAST_LABEL]
            elif n == 2:
                self.values[at] = 2.0 * slot[LAST_LABEL] - 1.0
            else:
                self.values[at] = slot[LAST_LABEL] == k
            at += 1
        self.values[at] = log1p(event - slot[LAST_EVENT])
        if self.timed:
            at += 1
            self.values[at] = log1p(max(time - slot[LAST_TIME], 0.0))
        self.values[at + 1] = 0.0  # not new

    cdef observe(self, task, list keys, label, double time):
        cdef double y = self.read(label), event
        cdef Py_ssize_t slot
        if self.used + len(keys) > self.limit:
            self.drop_oldest()
        own = self.slots.setdefault(task, {})
        self.ticks += 1.0
        event = self.table[self.slot_of(own, ""), LAST_EVENT] + 1.0
        before = []
        for _, category in keys:
            slot = self.slot_of(own, category)
            before.append((slot, (<char*> &self.table[slot, 0])[: self.width * sizeof(double)]))
            self.add(&self.table[slot, 0], y, event, time)
        self.undo.append(before)

    cdef Py_ssize_t slot_of(self, dict own, category) except -1:
        """The slot of a category; a new one if there is none."""
        slot = own.get(category)
        if slot is None:
            if self.used == self.table.shape[0]:
                self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            own[category] = slot = self.used
            self.used += 1
        return slot

    cdef void add(self, double* slot, double y, double event, double time) noexcept:
        cdef Py_ssize_t n = 1 if self.number else len(self.labels), step = 1 + self.lives, k, h
        cdef double* sums = slot + WEIGHT + self.lives
        for h in range(self.lives):
            slot[WEIGHT + h] = self.decay[h] * slot[WEIGHT + h] + 1.0
            for k in range(n):
                sums[k * step + 1 + h] *= self.decay[h]
        k = 0 if self.number else <Py_ssize_t> y
        sums[k * step] += 1.0
        for h in range(self.lives):
            sums[k * step + 1 + h] += y if self.number else 1.0
        slot[TICK], slot[LAST_EVENT], slot[LAST_TIME], slot[LAST_LABEL] = self.ticks, event, time, y

    cdef drop_oldest(self):
        """Drop the half of the slots that was observed longest ago."""
        table = np.asarray(self.table)
        kept = np.sort(np.argsort(table[: self.used, TICK], kind="stable")[self.used // 2 :])
        place = np.full(self.used, -1)
        place[kept] = np.arange(len(kept))
        alive = {
            task: {name: int(place[slot]) for name, slot in own.items() if place[slot] >= 0}
            for task, own in self.slots.items()
        }
        fresh = np.zeros_like(table)
        fresh[: len(kept)] = table[kept]
        self.slots = {task: own for task, own in alive.items() if own}
        self.table, self.used, self.undo = fresh, len(kept), []

    def commit(self):
        """Make all observations final."""
        self.undo.clear()

    def rollback(self, Py_ssize_t kept=0):
        """Undo the observations since the last commit, but those of the first ``kept`` rows."""
        cdef Py_ssize_t slot
        cdef bytes numbers
        while len(self.undo) > kept:
            for slot, numbers in reversed(self.undo.pop()):
                memcpy(&self.table[slot, 0], <const char*> numbers, len(numbers))
        self.undo.clear()

    def forget(self, task):
        """Drop the history of a task."""
        for slot in self.slots.pop(task, {}).values():
            np.asarray(self.table)[slot] = 0.0

    def state(self):
        """Return JSON-able values and the table, for :meth:`from_state`."""
        return {
            "columns": list(self.columns), "number": self.number, "half_lives": list(self.half_lives),
            "limit": self.limit, "timed": self.timed, "labels": list(self.labels), "ticks": self.ticks,
            "slots": [[task, list(own), list(own.values())] for task, own in self.slots.items()],
        }, np.array(self.table[: self.used])


cdef class Wider:
    """A block that gets more entries at the end of each row."""

    cdef object lexicon
    cdef double[::1] values
    cdef int[::1] names
    cdef long long[::1] starts
    cdef list texts                  # by number of a name
    cdef list named                  # history names whose numbers are known
    cdef int[:, ::1] numbers         # of them: by column and feature
    cdef double* value
    cdef int* name
    cdef Py_ssize_t n, room_values, room_names
    cdef list ends

    def __init__(self, rows):
        self.lexicon, self.texts = rows.lexicon, rows.lexicon.names
        self.values, self.names = rows.values, rows.names
        self.starts = rows.starts
        self.ends = [0]

    def __dealloc__(self):
        release(self.value)
        release(self.name)

    cdef list categories(self, HistoryFeatures history, Py_ssize_t row):
        """Names of a row that may be categories of a history column; its entries are copied."""
        cdef Py_ssize_t k
        cdef list found = []
        for k in range(self.starts[row], self.starts[row + 1]):
            self.push(self.names[k], self.values[k])
            name = <str> self.texts[self.names[k]]
            if history.place_of.get(name, 1):
                found.append(name)
        return found

    cdef int push(self, int name, double value) except -1:
        reserve(<void**> &self.value, &self.room_values, self.n + 1, sizeof(double))
        reserve(<void**> &self.name, &self.room_names, self.n + 1, sizeof(int))
        self.value[self.n], self.name[self.n] = value, name
        self.n += 1
        return 0

    cdef int push_all(self, HistoryFeatures history, Py_ssize_t place) except -1:
        """Add the features of a slot that are not zero."""
        cdef Py_ssize_t k, n = history.values.shape[0]
        if history.names is not self.named:  # a new label brings new features
            self.numbers = np.array(
                [[self.lexicon.number(name) for name in names] for names in history.names], dtype=np.int32
            )
            self.named = history.names
        for k in range(n):
            if history.values[k] != 0.0:
                self.push(self.numbers[place, k], history.values[k])
        return 0

    cdef int end_row(self) except -1:
        self.ends.append(self.n)
        return 0

    cdef block(self):
        values, names = np.empty(self.n), np.empty(self.n, dtype=np.int32)
        cdef double[::1] value = values
        cdef int[::1] name = names
        cdef Py_ssize_t k
        for k in range(self.n):
            value[k], name[k] = self.value[k], self.name[k]
        return Encoded(values, names, np.array(self.ends, dtype=np.int64), self.lexicon)
