"""Predictions that lie one behind the other in what came over a connection, answered in one go.

Each of them :class:`romco.service.wires.Wire` would answer alike, and it is asked wherever anything
is out of the ordinary. No line of Python is run here: by the time that a client has been waited
for the processor has forgotten the interpreter, which then costs several times what it does in a loop.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.string cimport memchr, memcmp, memcpy
from romco.kernels.reading.questions cimport Questions
from romco.service.times cimport Times

from time import perf_counter

cdef tuple PLAIN = (str, int, float, bool)  # kinds of labels that JSON has
cdef Py_ssize_t LONG = 1 << 14  # bytes; a list of more is quicker read as a whole
cdef list LENGTHS = [b"%d\r\n\r\n" % n for n in range(512)]  # of answers, and the end of their head


cdef class Lane:
    """Answers plain events of a model of two classes, one or a list of them.

    Parameters
    ----------
    start:
        How a request begins, with the end of its first line.
    longest_head, longest_body:
        Bytes; what has more is left to others.
    heads:
        Header lines that are known: the length of the body, and why the request is refused.
    questions, live, keep:
        What reads bodies; what has the model; what is told the tasks and predictions where an
        event wants to wait for its answer.
    told, encode:
        What makes an answer of label, probability, margin and version, and JSON of it.
    meters, path:
        What counts requests to the path.
    """

    cdef bytes start
    cdef Py_ssize_t longest_head, longest_body
    cdef dict heads
    cdef Questions questions
    cdef object live, keep, told, encode, meters
    cdef Times times
    cdef tuple answered  # path and status
    cdef object carries  # headers that all answers have, made anew when the date changes
    cdef bytes first  # how answers begin with these

    def __init__(
        self, bytes start not None, Py_ssize_t longest_head, Py_ssize_t longest_body,
        dict heads not None, Questions questions, live, keep, told, encode, meters, str path not None,
    ):
        self.start, self.longest_head, self.longest_body = start, longest_head, longest_body
        self.heads, self.questions, self.live, self.keep = heads, questions, live, keep
        self.told, self.encode, self.meters = told, encode, meters
        self.times, self.answered = meters.times(path), (path, 200)

    def serve(self, wire, bytes data not None):
        """Answer what comes first on a connection; gives where the rest begins."""
        cdef Py_ssize_t at = 0
        cdef list told = []
        if not is_free(wire):
            return 0
        state = wire.server_state
        if state.default_headers is not self.carries:
            self.first, self.carries = wire.begin_with(200), state.default_headers
        at = self.answer(data, 0, self.first, told)
        if at > 0:
            wire.transport.write(told[0] if len(told) == 1 else b"".join(told))
            state.total_requests += len(told)
            wire.active = wire.loop.time()
        return at

    def answer(self, bytes data not None, Py_ssize_t at, bytes first not None, list told not None):
        """Add the answers to requests from ``at`` on; gives where the first begins that is left.

        ``first`` is how an answer begins, up to its length.
        """
        cdef Py_ssize_t begin = 0, length = 0, before = len(told), events = 0, all_ = 0
        cdef double since = perf_counter(), now
        while self.find(data, at, &begin, &length):
            try:
                answer = self.say(PyBytes_AS_STRING(data) + begin, length, &events)
            except Exception:  # told, and noted, where it comes up again
                answer = None
            if answer is None:
                break
            told.append(whole(first, answer))
            at, all_ = begin + length, all_ + events
            now = perf_counter()
            self.times.add(now - since)
            since = now
        if len(told) > before:
            count(self.meters, self.answered, len(told) - before, all_)
        return at

    def answer_body(self, bytes body not None):
        """The answer to what came in any other way, or None."""
        cdef Py_ssize_t events = 0
        found = self.say(PyBytes_AS_STRING(body), len(body), &events)
        if found is not None:
            self.meters.predicted += events
        return found

    cdef bint find(self, bytes data, Py_ssize_t at, Py_ssize_t* begin, Py_ssize_t* length) except -1:
        """Whether a whole plain request comes next, and where its body lies."""
        cdef const char* text = PyBytes_AS_STRING(data)
        cdef Py_ssize_t n = len(data), lines = at + len(self.start), end
        if n < lines or memcmp(text + at, PyBytes_AS_STRING(self.start), len(self.start)) != 0:
            return False
        end = end_of_head(text, lines, min(n, at + self.longest_head))
        if end < 0:
            return False
        head = self.heads.get(text[lines:end - 2])
        if head is None or <object> PyTuple_GET_ITEM(head, 1) is not None:
            return False
        begin[0], length[0] = end, <object> PyTuple_GET_ITEM(head, 0)
        return length[0] <= self.longest_body and length[0] <= n - end

    cdef say(self, const char* text, Py_ssize_t n, Py_ssize_t* events):
        """The answer to an event or to a short list of them without ids, or None; and how many."""
        cdef Questions questions = self.questions
        if questions is None or self.live.budget is not None:
            return None
        questions.begin(text)
        if questions.next(b"["):
            found = self.say_all(text + n) if n <= LONG else None
            events[0] = 0 if found is None else len(found)
        else:
            found = self.say_one(questions.event(0), text + n)
            events[0] = 1
        return None if found is None else self.encode(found)

    cdef say_one(self, task, const char* end):
        version = self.live.sequence
        found = self.predict(task) if task is not None and self.questions.ends(end) else None
        if found is None:
            return None
        if self.questions.waiting:
            self.keep([task], [found])
        return self.told(found[0], found[1], found[2], version)

    cdef list say_all(self, const char* end):
        """One after the other: a row is forgotten when the next is read, so that none can wait."""
        cdef Questions questions = self.questions
        cdef list told = []
        while len(told) < questions.events:
            questions.reader.clear()
            version, task = self.live.sequence, questions.event(0)
            found = None if task is None or questions.waiting else self.predict(task)
            if found is None:
                return None
            told.append(self.told(found[0], found[1], found[2], version))
            if not questions.next(b","):
                return told if questions.next(b"]") and questions.ends(end) else None
        return None

    cdef tuple predict(self, task):
        """Label, probability and margin of the row that was read, or None."""
        cdef tuple found = self.live.model.answer_read(self.questions.reader, task)
        plain = found is not None and (found[0] is None or isinstance(found[0], PLAIN))
        return found if plain else None


cdef count(meters, key, Py_ssize_t n, Py_ssize_t events):
    """So many requests for predictions of so many events were answered."""
    cdef dict requests = meters.requests
    requests[key] = requests.get(key, 0) + n
    meters.predicted += events


cpdef bint is_free(wire) except -1:
    """Whether nothing goes the long way, nobody is too slow to read, and there is room."""
    if wire.within or wire.refused or wire.learning or wire.begun or wire.flow.write_paused:
        return False
    cycle, limit = wire.cycle, wire.limit_concurrency
    if not (cycle is None or cycle.response_complete) or wire.transport.is_closing():
        return False
    return limit is None or len(wire.connections) < limit


cdef Py_ssize_t end_of_head(const char* text, Py_ssize_t at, Py_ssize_t end) noexcept:
    """Where an empty line ends, the first from ``at - 2`` on; -1 without one."""
    cdef const char* found
    at += 1
    while at < end:
        found = <const char*> memchr(text + at, b"\n", end - at)
        if found == NULL:
            return -1
        at = found - text + 1
        if text[at - 2] == b"\r" and text[at - 3] == b"\n" and text[at - 4] == b"\r":
            return at
    return -1


cdef bytes whole(bytes first, bytes answer):
    """An answer with its head."""
    cdef Py_ssize_t n = len(answer), a = len(first)
    cdef bytes length = LENGTHS[n] if n < 512 else b"%d\r\n\r\n" % n
    cdef Py_ssize_t b = len(length)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, a + b + n)
    cdef char* to = PyBytes_AS_STRING(made)
    memcpy(to, PyBytes_AS_STRING(first), a)
    memcpy(to + a, PyBytes_AS_STRING(length), b)
    memcpy(to + a + b, PyBytes_AS_STRING(answer), n)
    return made
