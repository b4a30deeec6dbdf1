"""Predictions that lie one behind the other in what came over a connection, answered in one go.

Each of them :class:`romco.server.wires.Wire` would answer alike, and it is asked wherever anything
is out of the ordinary. No line of Python is run here: by the time that a client has been waited
for the processor has forgotten the interpreter, which then costs several times what it does in a loop.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.string cimport memchr, memcmp, memcpy
from romco.kernels.io.questions cimport Questions
from romco.server.times cimport Times

cdef extern from *:
    """
    #if defined(_WIN32)
    #include <windows.h>
    static double romco_now(void) {
        LARGE_INTEGER ticks, each;
        QueryPerformanceCounter(&ticks);
        QueryPerformanceFrequency(&each);
        return (double) ticks.QuadPart / (double) each.QuadPart;
    }
    static Py_ssize_t romco_receive(int file, char* room, Py_ssize_t size, double seconds) {
        return -1;
    }
    #else
    #include <errno.h>
    #include <poll.h>
    #include <sys/socket.h>
    #include <time.h>
    static double romco_now(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
    }
    /* Bytes that come within so many seconds, awake all the while; 0 or less if none do. */
    static Py_ssize_t romco_receive(int file, char* room, Py_ssize_t size, double seconds) {
        struct pollfd one = {file, POLLIN, 0};
        double end = romco_now() + seconds;
        Py_ssize_t found = recv(file, room, (size_t) size, MSG_DONTWAIT);
        while (found < 0 && (errno == EAGAIN || errno == EINTR) && romco_now() < end)
            if (poll(&one, 1, 0) > 0)
                found = recv(file, room, (size_t) size, MSG_DONTWAIT);
            else
                errno = EAGAIN;
        return found;
    }
    #endif
    """
    double clock "romco_now" () noexcept nogil
    Py_ssize_t receive "romco_receive" (int file, char* room, Py_ssize_t size, double seconds) noexcept nogil

cdef tuple PLAIN = (str, int, float, bool)  # kinds of labels that JSON has
cdef Py_ssize_t LONG = 1 << 14  # bytes; a list of more is quicker read as a whole
cdef Py_ssize_t ROOM = 1 << 16  # bytes that are taken at once
cdef double STAY = 0.0005  # seconds for which one client may keep all others waiting
cdef double CALM = 0.1  # seconds since something was learned
cdef int MOST_LUCK = 8, SELDOM = 64
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
    awake:
        Seconds for which a client is waited for who asks again at once; to be woken up takes longer
        than to answer. 0 where a processor is all there is.
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
    cdef double awake
    cdef char* room  # for what comes meanwhile
    cdef void* last  # connection that was answered, only to be compared
    cdef long long sequence  # of the last change that was seen
    cdef double changed  # when it was
    cdef int luck  # how often it was worth it to stay awake, lately
    cdef unsigned int asleep  # how often it was not tried
    cdef readonly long long stayed  # how often something came while it stayed awake

    def __cinit__(self):
        self.room = <char*> PyMem_Malloc(ROOM)
        if self.room == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.room)

    def __init__(
        self, bytes start not None, Py_ssize_t longest_head, Py_ssize_t longest_body,
        dict heads not None, Questions questions, live, keep, told, encode, meters, str path not None,
        double awake=0.0,
    ):
        self.start, self.longest_head, self.longest_body = start, longest_head, longest_body
        self.heads, self.questions, self.live, self.keep = heads, questions, live, keep
        self.told, self.encode, self.meters = told, encode, meters
        self.times, self.answered = meters.times(path), (path, 200)
        self.awake, self.luck = awake, MOST_LUCK

    def serve(self, wire, bytes data not None):
        """Answer what comes first on a connection; gives the rest, None if nothing is left."""
        cdef Py_ssize_t at
        if not is_free(wire):
            return data
        at = self.answer_on(wire, data)
        if at < len(data):
            return data[at:] if at > 0 else data
        return self.stay(wire) if self.is_worth(wire) else None

    cdef Py_ssize_t answer_on(self, wire, bytes data) except -1:
        """Answer what comes first; gives where the rest begins."""
        cdef list told = []
        cdef Py_ssize_t at
        state = wire.server_state
        if state.default_headers is not self.carries:
            self.first, self.carries = wire.begin_with(200), state.default_headers
        at = self.answer(data, 0, self.first, told)
        if at > 0:
            wire.transport.write(told[0] if len(told) == 1 else b"".join(told))
            state.total_requests += len(told)
            wire.active = wire.loop.time()
        return at

    cdef stay(self, wire):
        """Answer what else this client asks for, as long as it asks at once; gives the rest.

        What it sends is taken past the loop, which sees nothing but that less has come. An end or
        an error is left to it.
        """
        cdef double end = clock() + STAY
        cdef int file = wire.file
        cdef Py_ssize_t n, at
        flow, transport = wire.flow, wire.transport
        while clock() < end and not (flow.write_paused or flow.read_paused or transport.is_closing()):
            with nogil:
                n = receive(file, self.room, ROOM, self.awake)
            self.luck = min(self.luck + 1, MOST_LUCK) if n > 0 else self.luck - 1
            if n <= 0:
                return None
            data = self.room[:n]
            self.stayed += 1
            at = self.answer_on(wire, data)
            if at < n:
                return data[at:] if at > 0 else data
        return None

    cdef bint is_worth(self, wire) except -1:
        """Whether nobody else asks, nothing is learned, and it was worth it lately to stay awake."""
        cdef bint same = self.last == <void*> wire
        cdef long long sequence = self.live.sequence
        cdef double now = clock()
        self.last = <void*> wire
        if sequence != self.sequence:
            self.sequence, self.changed = sequence, now
        if self.awake <= 0.0 or not same or wire.file < 0 or now - self.changed < CALM:
            return False
        if self.luck <= 0:
            self.luck, self.asleep = 0, self.asleep + 1
            return self.asleep % SELDOM == 0
        return True

    def answer(self, bytes data not None, Py_ssize_t at, bytes first not None, list told not None):
        """Add the answers to requests from ``at`` on; gives where the first begins that is left.

        ``first`` is how an answer begins, up to its length.
        """
        cdef Py_ssize_t begin = 0, length = 0, before = len(told), events = 0, all_ = 0
        cdef double since = clock(), now
        while self.find(data, at, &begin, &length):
            try:
                answer = self.say(PyBytes_AS_STRING(data) + begin, length, &events)
            except Exception:  # told, and noted, where it comes up again
                answer = None
            if answer is None:
                break
            told.append(whole(first, answer))
            at, all_ = begin + length, all_ + events
            now = clock()
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
        found = self.live.model.engine.predict_event(self.questions.reader, task)
        if found is NotImplemented or not (found[0] is None or isinstance(found[0], PLAIN)):
            return None
        return found


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
