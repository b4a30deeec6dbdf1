"""History features: what the past labels of a task were, in all and for each category.

A slot belongs to a task, or to a pair of a task and a category such as ``skill=7``. It keeps counts
of past labels, decayed means, the last label and when it came. A category also has a slot that all
tasks share. For classes, slots have levels: the log-odds of an event is the sum of the levels of its
slots, of all tasks and of its own, each with a Gaussian posterior of diagonal covariance. The
features of an event are computed before its label is added, so a label is never visible to its own
prediction.
"""

import numpy as np
from libc.math cimport exp, fabs, fmax, fmin, isnan, log1p
from libc.string cimport memcpy, memset
from romco.kernels.core.memory cimport release, reserve, resize
from romco.kernels.io.encoder cimport Encoder
from romco.kernels.io.mappings cimport Mappings

from romco.kernels.core.events import LARGEST_FEATURE
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.lexicon import Lexicon

HALF_LIVES = (2.0, 8.0, 32.0)  # of decayed means, in events of the slot
PRODUCTS = ("all.all", "all.own", "own.own")  # of levels: of all tasks, and of the event's own
PREFIX = "history."  # of the features' names, and of the arrays in a model file
MAX_NAMES = 2**20  # names kept of rows; beyond it they are found again, so that memory is bounded

cdef enum:
    LIVES = 3
    FIRST_LIFE = 1         # of features of classes: recent labels tell more of the shortest one
    NOBODY = -1
    FIRST_BUCKETS = 64
    ONE_LABEL = 3          # bits of a code
    TWO_LABELS = 15
    THREE_LABELS = 63
cpdef enum:                # callers split and join histories
    EVERYBODY = -2         # task of the slots that all tasks share
    LABEL_CODES = 64       # codes of three labels
cdef double EFFECT = 0.5   # value of a category's own effects: they are smaller than common ones
cdef double LEVEL_PRIOR = 1.0   # variance of a level before its first label
cdef double LEVEL_DRIFT = 0.003  # growth of it with each label; levels of all tasks stay
cdef enum:                 # numbers of a slot; for each class a count and decayed sums follow
    LAST_EVENT             # events of the task so far, with the last one of this slot
    LAST_TIME
    LAST_LABEL             # class, or number
    RECENT                 # code of the last three labels, two bits of each: 1, 2 for the first
                           # two classes, 3 for all others, 0 where there is none; in a task's
                           # slot plus LABEL_CODES times (1 + the last category of the first column)
    LEVEL                  # what the slot adds to the log-odds of the second class
    SURE                   # variance of it that labels took away
    WEIGHT                 # decayed number of observations, one for each half-life
    SUMS = WEIGHT + LIVES
    PER_CLASS = 1 + LIVES
cdef enum:                 # what the undo log says of a slot: it was moved, made, or evicted
    MOVED, MADE, EVICTED
CODE_COLUMN = RECENT       # of a state's table
cdef double LARGEST = LARGEST_FEATURE
cdef double[LIVES] DECAY
DECAY[:] = [2.0 ** (-1.0 / life) for life in HALF_LIVES]


cdef struct Link:
    long long task
    int category           # NOBODY: the slot is of the task itself
    int chain              # next slot of the bucket, or next free slot
    int older, newer       # neighbours by the time of the last observation


cdef struct Found:         # a category of the row that was scanned
    int category           # index in `categories`, NOBODY - its place where it was never observed
    int own                # index in `lexicon`
    int place


cdef int[::1] grown(int[::1] array, Py_ssize_t n):
    """An array of at least n entries: the old one, or a larger one with NOBODY where it is new."""
    if n <= array.shape[0]:
        return array
    return np.concatenate([array, np.full(max(n - len(array), len(array)), NOBODY, dtype=np.int32)])


cdef class HistoryFeatures:
    """Compute history features of events and observe their labels.

    A task is its index in the caller's table, -1 where it is not known. Labels are classes 0, 1, ...
    or with ``numeric`` any numbers; NaN is a label that is not known and is not observed. Columns
    go from coarse to fine: for classes, each category of the last one has its own slope for the
    event's own levels, and its own effect of the last label of the column before. Each category of
    the others has its own effects of its last two labels. A category of the first column also has
    one of the category and label before it, if another column follows. When ``limit`` slots are in
    use, a new one takes the place of the one that was observed longest ago.

    >>> from romco.kernels.io.lexicon import Lexicon
    >>> names = Lexicon()
    >>> skill = names.number("skill=7")
    >>> rows = Encoded(np.ones(2), np.array([skill, skill], "i4"), np.arange(3), names)
    >>> history = HistoryFeatures(["skill"])
    >>> wide = history.expand(np.zeros(2, "i8"), rows, np.array([1.0, 0.0]))
    >>> [wide.lexicon.names[k] for k in wide.rows(0, 1).names]
    ['skill=7', 'history.task.recent[]', 'history.skill=7.recent[]']

    Parameters
    ----------
    columns:
        Categorical columns that are crossed with the task.
    numeric:
        Whether labels are numbers, not classes.
    time:
        Column of the time in seconds, which is no feature itself; None if there is none.
    limit:
        Largest number of slots.
    """

    cdef readonly tuple columns
    cdef readonly object time
    cdef readonly bint numeric
    cdef readonly Py_ssize_t limit, used, classes
    cdef readonly list categories      # names
    cdef Py_ssize_t n_final            # names of them that were committed
    cdef readonly dict features        # by name, as `feature_of` returns them; without slopes
    cdef dict category_of              # index in `categories` by name
    cdef object lexicon, source        # names of expanded rows; the lexicon of the rows last read
    cdef set taken                     # indices in `source` of names that features have
    cdef int[::1] own                  # index in `lexicon` by index in `source`
    cdef Py_ssize_t n_own              # names of `source` that were looked up
    cdef int[::1] category_at          # by index in `lexicon`, as in `Found`, or NOBODY
    cdef int[::1] slope_at             # index in `lexicon` of a category's slope
    cdef int[::1] place_of             # place of a category
    cdef int[::1] feature_at           # index in `lexicon` of each feature
    cdef dict recent_at                # and of recent labels, by category and code,
    cdef int[::1] cached               # of the task and of categories that were observed
    cdef int time_name
    cdef const double* entries         # the rows being read
    cdef const int* entry_names
    cdef const long long[::1] starts

    cdef double* table
    cdef Link* links
    cdef int* buckets
    cdef double* undo
    cdef Py_ssize_t* ends              # of the rows since the last commit, in the undo log
    cdef Py_ssize_t room_table, room_links, room_undo, room_ends, n_undo, n_rows, kept_rows
    cdef Py_ssize_t width, places, base, common, made, mask
    cdef int oldest, newest, free

    cdef double* value                 # entries of expanded rows
    cdef int* name
    cdef double* feature               # of one event: code of recent labels by place, features
    cdef Found* found                  # its categories
    cdef int* slots                    # those that its label moves: of all tasks, its own
    cdef Py_ssize_t room_value, room_name, room_feature, room_found, room_slots, n, n_found
    cdef double at_time

    def __init__(self, columns, *, numeric=False, time=None, limit=1_000_000):
        self.columns, self.numeric, self.time, self.limit = tuple(columns), numeric, time, limit
        if len(set(self.columns)) != len(self.columns) or not all(
            isinstance(column, str) and column for column in self.columns
        ):
            raise ValueError(f"history columns must be different names; got {list(self.columns)}")
        if "task" in self.columns:
            raise ValueError("history column 'task': the task has a history anyway; rename it")
        if not 2 + 2 * len(self.columns) <= limit < 2**31:
            raise ValueError(f"history needs room for {2 + 2 * len(self.columns)} slots; got {limit}")
        self.categories, self.category_of = [], {}
        self.place_of = np.empty(0, dtype=np.int32)
        self.oldest = self.newest = self.free = NOBODY
        self.fill_buckets(FIRST_BUCKETS)
        self.lay_out(1 if numeric else 2)
        self.renew_names()

    def __dealloc__(self):
        release(self.table)
        release(self.links)
        release(self.buckets)
        release(self.undo)
        release(self.ends)
        release(self.value)
        release(self.name)
        release(self.feature)
        release(self.found)
        release(self.slots)

    # Names

    cdef lay_out(self, Py_ssize_t classes):
        """Set the width of slots and the names of features for so many classes."""
        means = [f"mean{life:g}" for life in HALF_LIVES[0 if self.numeric else FIRST_LIFE :]]
        kinds = [("count", k) for k in range(1 if self.numeric else 2)] + [(kind, 1) for kind in means]
        kinds += [("last", 1)] * self.numeric + [("gap", 1)] + [("time", 1)] * (self.time is not None)
        kinds += [("new", 1)] * self.numeric
        self.features = {}
        self.add_features(kinds)
        self.base, self.common = len(kinds), 0
        if self.columns and not self.numeric:
            self.add_features([("level", 1)])
            for kind in ("all", *PRODUCTS):
                self.features[f"{PREFIX}task.{kind}"] = 0, kind, 1, None
            self.common = len(self.columns) + 2 + len(PRODUCTS)
        for k in range(2, classes):  # behind the others, whose places stay
            self.add_features([(kind, k) for kind in ("count", *means, "last")])
        self.classes, self.places = classes, 1 + len(self.columns)
        self.width = SUMS + classes * PER_CLASS
        n = self.places + len(self.features)
        reserve(<void**> &self.feature, &self.room_feature, n, sizeof(double))

    cdef add_features(self, kinds):
        for place, level in enumerate(("task", *self.columns)):
            for kind, label in kinds:
                tail = f"[{label}]" if label > 1 or kind == "count" and not self.numeric else ""
                self.features[f"{PREFIX}{level}.{kind}{tail}"] = place, kind, label, None

    def feature_of(self, name):
        """Return place, kind, class and category of a feature's name; None of any other name.

        Place 0 is the task, k the k-th column. The category is that of a slope or of recent
        labels, else None; the class of recent labels is the list of them.
        """
        if name in self.features or not name.startswith(PREFIX) or self.numeric:
            return self.features.get(name)
        category, _, kind = name[len(PREFIX):].rpartition(".")
        place = self.place(category)
        if kind[:7] == "recent[" and kind[7:].strip("012") == "]" and (category == "task" or place):
            return place, "recent", [int(k) for k in kind[7:] if k != "]"], category if place else None
        if kind == "own" and 0 < place == len(self.columns):
            return 0, "slope", 1, category
        return None

    def make_classes(self, Py_ssize_t classes):
        """Make room for so many classes; all labels that were observed stay."""
        cdef Py_ssize_t old = self.width, slot
        if self.numeric or classes <= self.classes:
            return
        self.rollback()
        table = self.rows_of(np.arange(self.made))
        self.lay_out(classes)
        self.renew_names()
        reserve(<void**> &self.table, &self.room_table, self.made * self.width, sizeof(double))
        cdef const double[:, ::1] before = table
        memset(self.table, 0, self.made * self.width * sizeof(double))
        for slot in range(self.made):
            memcpy(&self.table[slot * self.width], &before[slot, 0], old * sizeof(double))

    cdef renew_names(self):
        """Begin a new lexicon of expanded rows."""
        self.lexicon, self.source = Lexicon(), None
        self.category_at = self.own = self.slope_at = self.cached = np.empty(0, dtype=np.int32)
        self.feature_at = np.array([self.lexicon.number(name) for name in self.features], dtype=np.int32)
        self.time_name = NOBODY if self.time is None else self.lexicon.number(self.time)
        self.recent_at = {}

    cdef Py_ssize_t read(self, rows) except -1:
        """Begin to read a block of rows, look up its new names, and return its length."""
        cdef const double[::1] values = rows.values
        cdef const int[::1] names = rows.names
        self.entries = &values[0] if len(values) else NULL
        self.entry_names = &names[0] if len(names) else NULL
        self.starts = rows.starts
        self.follow(rows.lexicon)
        for k in self.taken.intersection(rows.names.tolist() if self.taken else ()):
            name = self.source.names[k]
            raise ValueError(f"column {name!r} has the name of a history feature: rename it")
        return len(rows.starts) - 1

    cdef follow(self, lexicon):
        """Look up the new names of a lexicon whose rows are read next."""
        if len(self.lexicon) > MAX_NAMES:
            self.renew_names()
        if lexicon is not self.source:
            self.source, self.n_own, self.taken = lexicon, 0, set()
        if len(self.source) > self.n_own:
            self.look_up(self.source.names[self.n_own:])

    cdef look_up(self, names):
        cdef int own, place
        self.own = grown(self.own, self.n_own + len(names))
        for name in names:
            if self.feature_of(name):
                self.taken.add(self.n_own)
            own, place = self.lexicon.number(name), self.place(name)
            self.own[self.n_own] = own
            self.n_own += 1
            self.category_at = grown(self.category_at, own + 1)
            self.slope_at = grown(self.slope_at, own + 1)
            if place:
                self.category_at[own] = self.category_of.get(name, NOBODY - place)
                if place == len(self.columns) and not self.numeric:
                    self.slope_at[own] = self.lexicon.number(f"{PREFIX}{name}.own")

    cdef int place(self, name) except -1:
        """The place of the column that a category is of; 0 if it is no category of one."""
        fits = [column for column in self.columns if name.startswith(column + "=")]
        return 1 + self.columns.index(max(fits, key=len)) if fits else 0

    cdef int category(self, name, int place) except -1:
        """Index of a category; it gets one if it has none."""
        cdef Py_ssize_t index = self.category_of.setdefault(name, len(self.categories))
        if index == len(self.categories):
            self.categories.append(name)
            self.place_of = grown(self.place_of, index + 1)
            self.place_of[index] = place
        return index

    # Rows

    def expand(self, const long long[::1] tasks, rows, y=None, given=None, learned=True):
        """Return rows with their history features; observe the labels where they are given.

        Labels are observed one after the other: a row has the history of the rows before it.

        Parameters
        ----------
        tasks, rows:
            Numbers (n,) and an ``Encoded`` block.
        y:
            Labels (n,), NaN where none is known; final after :meth:`commit`.
        given:
            Features (n, F) that :meth:`describe` gave when a row was predicted, NaN in rows
            that take them from now.
        learned:
            Whether labels count for all tasks, not only for their own.
        """
        cdef Py_ssize_t i, k, n, width = self.places + len(self.features)
        cdef const double[::1] labels
        cdef const double[:, ::1] known
        if y is not None:
            labels = y
            self.rollback()
        n = self.read(rows)
        if given is not None:
            known = given
        ends = np.zeros(n + 1, dtype=np.int64)
        cdef long long[::1] end = ends
        self.n = 0
        for i in range(n):
            self.scan(self.starts[i], self.starts[i + 1], True)
            if given is not None and not isnan(known[i, 0]):
                for k in range(width):
                    self.feature[k] = known[i, k] if k < known.shape[1] else 0.0
            else:
                self.compute(tasks[i])
            self.push_features()
            end[i + 1] = self.n
            if y is not None:
                self.observe_row(tasks[i], labels[i], learned)
        values, names = np.empty(self.n), np.empty(self.n, dtype=np.int32)
        cdef double[::1] value = values
        cdef int[::1] name = names
        if self.n:
            memcpy(&value[0], self.value, self.n * sizeof(double))
            memcpy(&name[0], self.name, self.n * sizeof(int))
        return Encoded(values, names, ends, self.lexicon)

    def describe(self, const long long[::1] tasks, rows):
        """Return codes of recent labels and history features of rows, of all ``features``."""
        cdef Py_ssize_t i, n = self.read(rows), width = self.places + len(self.features)
        table = np.empty((n, width))
        cdef double[:, ::1] row = table
        for i in range(n):
            self.scan(self.starts[i], self.starts[i + 1], False)
            self.compute(tasks[i])
            memcpy(&row[i, 0], self.feature, width * sizeof(double))
        return table

    def context_sizes(self):
        """Return the lengths that rows of :meth:`describe` had, for two classes and for more."""
        return [
            self.places * (1 + self.base + k * (LIVES + 1)) + self.common
            for k in range(max(1, self.classes - 1))
        ]

    def observe(self, const long long[::1] tasks, rows, const double[::1] y, learned=True):
        """Observe the labels of rows that were expanded before; final after :meth:`commit`."""
        cdef Py_ssize_t i
        self.rollback()
        for i in range(self.read(rows)):
            self.scan(self.starts[i], self.starts[i + 1], False)
            self.observe_row(tasks[i], y[i], learned)

    def read_event(self, long long task, Encoder row not None, Mappings reader not None, y=None):
        """Put an encoded event and its history features into a reader; observe a label y.

        The same as :meth:`expand` without an array. Returns whether it could be done: not where
        an entry is too large or a column has the name of a history feature.
        """
        cdef Py_ssize_t k
        if y is not None:
            self.rollback()
            self.prune()
        row.lexicon.tell()
        self.follow(row.lexicon)
        if self.taken:
            return False
        self.entries, self.entry_names, self.n = row.values, row.ids, 0
        self.scan(0, row.n, True)
        self.compute(task)
        self.push_features()
        if y is not None:
            self.observe_row(task, y, True)
        names = self.lexicon.names
        for k in range(self.n):
            if not fabs(self.value[k]) <= LARGEST:
                return False
            reader.put(names[self.name[k]], self.value[k])
        return True

    cdef int scan(self, Py_ssize_t begin, Py_ssize_t end, bint copy) except -1:
        """Find time and categories of the row from ``begin`` to ``end``, and copy its entries."""
        cdef Py_ssize_t k
        cdef int own, category
        cdef Found* found
        self.n_found, self.at_time = 0, 0.0
        reserve(<void**> &self.found, &self.room_found, end - begin, sizeof(Found))
        if copy:
            self.make_room(end - begin)
        for k in range(begin, end):
            own = self.own[self.entry_names[k]]
            if own == self.time_name:
                self.at_time = self.entries[k]
                continue
            if copy:
                self.value[self.n], self.name[self.n] = self.entries[k], own
                self.n += 1
            category = self.category_at[own]
            if category != NOBODY:
                found = &self.found[self.n_found]
                found.category, found.own = category, own
                found.place = self.place_of[category] if category >= 0 else NOBODY - category
                self.n_found += 1
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1:
        reserve(<void**> &self.value, &self.room_value, self.n + more, sizeof(double))
        reserve(<void**> &self.name, &self.room_name, self.n + more, sizeof(int))
        return 0

    cdef void push(self, double value, int own) noexcept:
        if value != 0.0:
            self.value[self.n], self.name[self.n] = value, own
            self.n += 1

    cdef int push_features(self) except -1:
        """Add recent labels, the features that are not zero, and the slope of the last category."""
        cdef Py_ssize_t k, n = self.feature_at.shape[0]
        cdef const double* feature = self.feature + self.places
        cdef double code = self.feature[0], slope = 0.0
        cdef long long task = <long long> code if 0.0 <= code < LABEL_CODES * (1.0 + len(self.categories)) else 0
        cdef long long labels, before = task >> 6
        cdef const Found* found
        cdef bint last
        self.make_room(1 + n + self.n_found * 3)
        if not self.numeric:
            self.push(1.0, self.recent_of(NOBODY, NOBODY, task & THREE_LABELS))
        for k in range(n):
            self.push(feature[k], self.feature_at[k])
        for k in range(self.places if self.common else 0):
            slope += EFFECT * feature[self.places * self.base + k]
        for k in range(0 if self.numeric else self.n_found):
            found = &self.found[k]
            last = found.place == self.places - 1
            labels = <long long> self.feature[found.place - last] & (ONE_LABEL if last else TWO_LABELS)
            self.push(EFFECT, self.recent_of(found.own, found.category, labels))
            if last:
                self.push(slope, self.slope_at[found.own])
            elif found.place == 1 and before and before != found.category + 1:
                self.push(EFFECT, self.recent(found.own, task & ~(THREE_LABELS - ONE_LABEL)))
        return 0

    cdef int recent_of(self, int own, int category, int code) except -1:
        """The same as :meth:`recent`, faster where the task or category had it before."""
        cdef Py_ssize_t at = code if own < 0 else THREE_LABELS + 1 + category * (TWO_LABELS + 1) + code
        if own >= 0 and category < 0:  # never observed
            return self.recent(own, code)
        if at >= self.cached.shape[0]:
            self.cached = grown(self.cached, at + 1)
        if self.cached[at] < 0:
            self.cached[at] = self.recent(own, code)
        return self.cached[at]

    cdef int recent(self, int own, long long code) except -1:
        """Index in `lexicon` of recent labels with this code, of a category or the task."""
        at = self.recent_at.get((own, code))
        if at is None:
            labels = "".join(str((code >> shift & 3) - 1) for shift in (4, 2, 0) if code >> shift & 3)
            name = "task" if own < 0 else self.lexicon.names[own]
            if code > THREE_LABELS:
                name = f"{name} following {self.categories[(code >> 6) - 1]}"
            at = self.recent_at[own, code] = self.lexicon.number(f"{PREFIX}{name}.recent[{labels}]")
        return at

    cdef void compute(self, long long task) noexcept:
        """Compute the history features of the event that was scanned."""
        cdef int slot, whole = self.find(task, NOBODY)
        cdef double event = 0.0 if whole < 0 else self.table[whole * self.width + LAST_EVENT]
        cdef Py_ssize_t k
        cdef double common = 0.0, own = 0.0
        cdef double* level = self.feature + self.places * (1 + self.base)
        memset(self.feature, 0, (self.places + self.feature_at.shape[0]) * sizeof(double))
        self.add_slot(whole, 0, event)
        for k in range(self.n_found):
            self.add_slot(self.find(task, self.found[k].category), self.found[k].place, event)
            slot = self.find(EVERYBODY, self.found[k].category) if self.common else NOBODY
            if slot >= 0:
                common += self.table[slot * self.width + LEVEL]
        if self.common:
            for k in range(self.places):
                own += level[k]
            level += self.places
            level[0], level[1], level[2], level[3] = common, common * common, common * own, own * own

    cdef void add_slot(self, int slot, Py_ssize_t place, double event) noexcept:
        """Add the features of a slot at a place: 0 for the task, else a column."""
        cdef Py_ssize_t k, h
        cdef double* to = self.feature + self.places + place * self.base
        cdef const double* old
        cdef const double* sums
        if slot < 0:
            if self.numeric:
                to[self.base - 1] += 1.0
            return
        old = self.table + slot * self.width
        sums = old + SUMS
        self.feature[place] = old[RECENT]
        to[0] += log1p(sums[0])
        if self.numeric:
            for h in range(LIVES):
                to[1 + h] += sums[1 + h] / (1.0 + old[WEIGHT + h])
            to[1 + LIVES] += old[LAST_LABEL]
            to += 1
        else:
            to[1] += log1p(sums[PER_CLASS])
            for h in range(FIRST_LIFE, LIVES):
                to[1 + h] += (sums[PER_CLASS + 1 + h] - sums[1 + h]) / (1.0 + old[WEIGHT + h])
        to[1 + LIVES] += log1p(fmax(event - old[LAST_EVENT], 0.0))
        if self.time is not None:
            to[2 + LIVES] += log1p(fmax(self.at_time - old[LAST_TIME], 0.0))
        if self.common:
            self.feature[self.places * (1 + self.base) + place] += old[LEVEL]
        for k in range(2, self.classes):
            to = self.feature + self.common + self.places * (1 + self.base + (k - 2) * (LIVES + 1))
            to += place * (LIVES + 1)
            to[0] += log1p(sums[k * PER_CLASS])
            for h in range(FIRST_LIFE, LIVES):
                to[h] += sums[k * PER_CLASS + 1 + h] / (1.0 + old[WEIGHT + h])
            to[LIVES] += old[LAST_LABEL] == k

    # Labels

    cdef int observe_row(self, long long task, double y, bint learned) except -1:
        """Observe the label of the row that was scanned, if it is known."""
        cdef Py_ssize_t k, n, shared = 0
        cdef int slot
        cdef Found* found
        cdef long long before = 0
        cdef double event
        if not isnan(y) and task >= 0:
            if not self.numeric and not 0.0 <= y < self.classes:
                raise ValueError(f"no class {y:g}: there are {self.classes}")
            reserve(<void**> &self.slots, &self.room_slots, 2 * self.n_found + 1, sizeof(int))
            for k in range(self.n_found):
                found = &self.found[k]
                if found.category < 0:
                    found.category = self.category(self.lexicon.names[found.own], found.place)
                    self.category_at[found.own] = found.category
                if found.place == 1:
                    before = 1 + found.category
                if self.common:
                    slot = self.find(EVERYBODY, found.category)
                    if learned:
                        slot = self.slot_of(EVERYBODY, found.category)
                    if slot >= 0:
                        self.slots[shared] = slot
                        shared += 1
            for k in range(self.n_found):
                self.slots[shared + k] = self.slot_of(task, self.found[k].category)
            n = shared + self.n_found + 1
            slot = self.slots[n - 1] = self.slot_of(task, NOBODY)  # last: it is evicted after these
            event = self.table[slot * self.width + LAST_EVENT] + 1.0
            if self.common:
                self.move_levels(n, shared, y == 1.0, learned)
            for k in range(0 if learned else shared, n):
                self.add_label(self.slots[k], y, event)
            if not self.numeric:
                self.table[slot * self.width + RECENT] += before << 6
        reserve(<void**> &self.ends, &self.room_ends, self.n_rows + 1, sizeof(Py_ssize_t))
        self.ends[self.n_rows] = self.n_undo
        self.n_rows += 1
        return 0

    cdef void move_levels(self, Py_ssize_t n, Py_ssize_t shared, bint second, bint learned) noexcept:
        """Take one logistic step with the levels of `slots`; the first `shared` are of all tasks."""
        cdef Py_ssize_t k
        cdef double log_odds = 0.0, variance = 0.0, own, p, scale
        cdef double* slot
        for k in range(n):
            slot = self.table + self.slots[k] * self.width
            log_odds += slot[LEVEL]
            variance += LEVEL_PRIOR - slot[SURE]
        p = 1.0 / (1.0 + exp(-log_odds))
        scale = 1.0 / (1.0 + p * (1.0 - p) * variance)
        for k in range(0 if learned else shared, n):
            slot = self.table + self.slots[k] * self.width
            own = LEVEL_PRIOR - slot[SURE]
            slot[LEVEL] += own * (second - p) * scale
            slot[SURE] += own * own * p * (1.0 - p) * scale
            slot[SURE] = fmax(slot[SURE] - (LEVEL_DRIFT if k >= shared else 0.0), 0.0)

    cdef void add_label(self, int slot, double y, double event) noexcept:
        cdef double* old = self.table + slot * self.width
        cdef double* sums = old + SUMS
        cdef Py_ssize_t k, h
        for h in range(LIVES):
            old[WEIGHT + h] = DECAY[h] * old[WEIGHT + h] + 1.0
            for k in range(self.classes):
                sums[k * PER_CLASS + 1 + h] *= DECAY[h]
        k = 0 if self.numeric else <Py_ssize_t> y
        sums[k * PER_CLASS] += 1.0
        for h in range(LIVES):
            sums[k * PER_CLASS + 1 + h] += y if self.numeric else 1.0
        old[LAST_EVENT], old[LAST_TIME], old[LAST_LABEL] = event, self.at_time, y
        if not self.numeric:
            old[RECENT] = (<long long> old[RECENT] << 2 & THREE_LABELS) + 1 + <int> fmin(y, 2.0)

    def commit(self, Py_ssize_t rows):
        """Make the observations of the first ``rows`` rows final."""
        self.kept_rows = min(rows, self.n_rows)
        self.n_final = len(self.categories)
        if self.kept_rows == self.n_rows:
            self.n_rows = self.kept_rows = self.n_undo = 0

    def rollback(self):
        """Undo all observations that are not final."""
        cdef Py_ssize_t least = self.ends[self.kept_rows - 1] if self.kept_rows else 0
        cdef const double* last
        cdef int slot, kind
        while self.n_undo > least:
            last = self.undo + self.n_undo - 4
            slot, kind = <int> last[0], <int> last[3]
            if kind == MOVED:
                self.unlink(slot)
                self.link(slot, <int> last[1])
            elif kind == MADE:
                self.remove(slot)
            else:
                self.free = self.links[slot].chain
                self.links[slot].task, self.links[slot].category = <long long> last[1], <int> last[2]
                self.chain(slot)
                self.link(slot, NOBODY)
                self.used += 1
            if kind != MADE:
                memcpy(self.table + slot * self.width, last - self.width, self.width * sizeof(double))
            self.n_undo -= self.width + 4
        self.n_rows = self.kept_rows = self.n_undo = 0
        if len(self.categories) > self.n_final:
            for name in self.categories[self.n_final:]:
                del self.category_of[name]
            del self.categories[self.n_final:]
            self.renew_names()

    # Slots

    cdef int find(self, long long task, int category) noexcept:
        """The slot of a task and a category; NOBODY if there is none."""
        cdef int slot = self.buckets[self.bucket(task, category)]
        while slot >= 0 and (self.links[slot].task != task or self.links[slot].category != category):
            slot = self.links[slot].chain
        return slot

    cdef Py_ssize_t bucket(self, long long task, int category) noexcept:
        cdef unsigned long long h = (<unsigned long long> task << 32) ^ <unsigned int> category
        h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL
        return (h ^ (h >> 33)) & self.mask

    cdef int slot_of(self, long long task, int category) except -1:
        """The slot of a task and a category, now the newest; a new one if there is none."""
        cdef int slot = self.find(task, category)
        if slot >= 0:
            self.log(slot, self.links[slot].older, 0, MOVED)
            self.unlink(slot)
            self.link(slot, self.newest)
            return slot
        if self.used >= self.limit:
            slot = self.oldest
            self.log(slot, <double> self.links[slot].task, self.links[slot].category, EVICTED)
            self.remove(slot)
        if self.free < 0:
            reserve(<void**> &self.links, &self.room_links, self.made + 1, sizeof(Link))
            reserve(
                <void**> &self.table, &self.room_table, (self.made + 1) * self.width, sizeof(double)
            )
            self.links[self.made].chain = NOBODY
            self.free = <int> self.made
            self.made += 1
            if self.made > self.mask:
                self.fill_buckets(2 * (self.mask + 1))
        slot = self.free
        self.log(slot, 0, 0, MADE)
        self.free = self.links[slot].chain
        self.links[slot].task, self.links[slot].category = task, category
        memset(self.table + slot * self.width, 0, self.width * sizeof(double))
        self.chain(slot)
        self.link(slot, self.newest)
        self.used += 1
        return slot

    cdef int log(self, int slot, double one, double other, int kind) except -1:
        """Write to the undo log what a slot was."""
        cdef double* last
        reserve(<void**> &self.undo, &self.room_undo, self.n_undo + self.width + 4, sizeof(double))
        memcpy(self.undo + self.n_undo, self.table + slot * self.width, self.width * sizeof(double))
        last = self.undo + self.n_undo + self.width
        last[0], last[1], last[2], last[3] = slot, one, other, kind
        self.n_undo += self.width + 4
        return 0

    cdef void chain(self, int slot) noexcept:
        cdef Py_ssize_t k = self.bucket(self.links[slot].task, self.links[slot].category)
        self.links[slot].chain = self.buckets[k]
        self.buckets[k] = slot

    cdef void link(self, int slot, int older) noexcept:
        """Put a slot behind ``older`` in the order of observation; first behind NOBODY."""
        cdef int newer = self.oldest if older < 0 else self.links[older].newer
        self.links[slot].older, self.links[slot].newer = older, newer
        if older >= 0:
            self.links[older].newer = slot
        else:
            self.oldest = slot
        if newer >= 0:
            self.links[newer].older = slot
        else:
            self.newest = slot

    cdef void unlink(self, int slot) noexcept:
        cdef int older = self.links[slot].older, newer = self.links[slot].newer
        if older >= 0:
            self.links[older].newer = newer
        else:
            self.oldest = newer
        if newer >= 0:
            self.links[newer].older = older
        else:
            self.newest = older

    cdef void remove(self, int slot) noexcept:
        """Free a slot."""
        cdef int* at = &self.buckets[self.bucket(self.links[slot].task, self.links[slot].category)]
        while at[0] != slot:
            at = &self.links[at[0]].chain
        at[0] = self.links[slot].chain
        self.unlink(slot)
        self.links[slot].chain = self.free
        self.free = slot
        self.used -= 1

    cdef int fill_buckets(self, Py_ssize_t n) except -1:
        """Sort the slots in use into n buckets, a power of two."""
        cdef int slot = self.oldest
        self.buckets = <int*> resize(self.buckets, n, sizeof(int))
        self.mask = n - 1
        memset(self.buckets, 255, n * sizeof(int))
        while slot >= 0:
            self.chain(slot)
            slot = self.links[slot].newer
        return 0

    cdef order(self):
        """The slots in use, the oldest first."""
        cdef int slot = self.oldest
        cdef Py_ssize_t k
        found = np.empty(self.used, dtype=np.int64)
        cdef long long[::1] slots = found
        for k in range(self.used):
            slots[k] = slot
            slot = self.links[slot].newer
        return found

    cdef rows_of(self, const long long[::1] slots):
        cdef Py_ssize_t k
        found = np.zeros((slots.shape[0], self.width))
        cdef double[:, ::1] row = found
        for k in range(slots.shape[0]):
            memcpy(&row[k, 0], self.table + slots[k] * self.width, self.width * sizeof(double))
        return found

    def forget(self, long long task):
        """Drop the history of a task."""
        self.rollback()
        for slot in self.order():
            if self.links[<int> slot].task == task:
                self.remove(slot)

    # State

    def arrays(self):
        """Return task, category and table row of each slot, the oldest first."""
        cdef const long long[::1] slots = self.order()
        cdef long long[:, ::1] keys = np.empty((2, self.used), dtype=np.int64)
        cdef Py_ssize_t k
        for k in range(self.used):
            keys[0, k], keys[1, k] = self.links[slots[k]].task, self.links[slots[k]].category
        tasks, categories = np.asarray(keys)
        return {"task": tasks, "category": categories, "table": self.rows_of(slots)}

    def load(self, categories, arrays):
        """Take over the names of categories and what :meth:`arrays` gave; the history must be new.

        Raises ValueError where no history could have given them.
        """
        tasks, indices, table = arrays["task"], arrays["category"], arrays["table"]
        n, classes = tasks.size, (table.shape[1] - SUMS) // PER_CLASS if table.ndim == 2 else 0
        if (
            tasks.dtype != np.int64 or indices.dtype != np.int64 or table.dtype != np.float64
            or tasks.shape != (n,) or indices.shape != (n,) or n > self.limit
            or table.shape != (n, SUMS + classes * PER_CLASS) or classes < self.classes
            or (self.numeric and classes != 1)
        ):
            raise ValueError("expected a task, a category and a table row for each slot of the history")
        self.make_classes(classes)
        places = [self.place(name) for name in categories]
        if not all(places) or len(set(categories)) < len(places):
            raise ValueError("a category of the history is named twice, or of no history column")
        for name, place in zip(categories, places):
            self.category(name, place)
        self.n_final = len(self.categories)
        lowest = np.where(tasks == EVERYBODY, 0, NOBODY)
        if ((tasks < 0) > (tasks == EVERYBODY)).any() or ((indices < lowest) | (indices >= len(places))).any():
            raise ValueError("the history has a task or category without a name")
        if not self.plausible(table):
            raise ValueError("the history has counts that no labels give")
        cdef const double[:, ::1] row = np.ascontiguousarray(table)
        cdef Py_ssize_t k
        cdef int slot
        for k in range(n):
            if self.find(tasks[k], indices[k]) >= 0:
                raise ValueError("the history has a slot twice")
            slot = self.slot_of(tasks[k], indices[k])
            memcpy(self.table + slot * self.width, &row[k, 0], self.width * sizeof(double))
        self.n_undo = 0

    cdef bint plausible(self, table) except -1:
        """Return whether all is finite, counts are not negative and classes are known."""
        sums, last = table[:, SUMS::PER_CLASS] if self.numeric else table[:, SUMS:], table[:, LAST_LABEL]
        fine = np.isfinite(table).all() and (table[:, LAST_EVENT] >= 1.0).all()
        fine = fine and (table[:, SURE:SUMS] >= 0.0).all() and (sums >= 0.0).all()
        fine = fine and (table[:, SURE] <= LEVEL_PRIOR).all()
        codes, limit = table[:, RECENT], LABEL_CODES * (1 + len(self.categories))
        fine = fine and ((codes >= 0.0) & (codes < limit) & (codes == np.floor(codes))).all()
        return fine and (self.numeric or ((last >= 0.0) & (last < self.classes)).all())

    def prune(self):
        """Drop names of categories that have no slot, if there are many more names than slots."""
        if len(self.categories) < 2 * self.limit:
            return
        cdef int slot
        self.rollback()
        old, slots = self.categories, self.order()
        self.categories, self.category_of = [], {}
        places = self.place_of
        self.place_of = np.empty(0, dtype=np.int32)
        for slot in slots:
            k = self.links[slot].category
            if k >= 0:
                self.links[slot].category = self.category(old[k], places[k])
        self.n_final = len(self.categories)
        for slot in slots:  # the category before it, of a task
            code = <long long> self.table[slot * self.width + RECENT]
            before = 1 + self.category_of.get(old[(code >> 6) - 1], NOBODY) if code >> 6 else 0
            self.table[slot * self.width + RECENT] = LABEL_CODES * before + (code & THREE_LABELS)
        self.fill_buckets(self.mask + 1)
        self.renew_names()
