"""Exact forgetting: the log is replayed without some tasks, and takes the place of the old one.

The replay writes a folder ``next`` of the usual form, a little at a time, so that a kill loses
little: it goes on from there. In the end its database replaces the old one.
"""

import hashlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from romco.files import load
from romco.io import durable
from romco.server.protocol import (
    RequestError,
    StoppedError,
    StoreError,
    Task,
    encode,
    name_key,
)
from romco.server.state import ServedModel, decode_scores
from romco.server.store import (
    DATABASE,
    NEXT,
    Change,
    Event,
    Learn,
    PendingEvent,
    Store,
    decode_pending,
    list_stored,
)
from romco.server.writer import Service, in_thread
from romco.version import __version__

STEP_SECONDS = 0.05  # of replay, between which requests have their turn
RETRY_SECONDS = 1.0
COPIED_ROWS = 2_000  # at a time
NO_LIMIT = 2**62
LOG_TRIMMED = "the log was not kept, so it cannot be replayed: start the service with --keep-log"
ASKS_LABELS = "the label policy depends on predictions, which are not in the log"


class Hashed(msgspec.Struct, frozen=True):
    """SHA-256 of a model file or a log, and the last change in it."""

    sequence: int
    sha256: str


class Certificate(msgspec.Struct, frozen=True):
    """Proof of exact forgetting: whoever replays ``log`` from ``base`` gets ``model``."""

    version: str  # of romco
    time: str
    tasks: list[tuple[str, str]]  # a salt, and the SHA-256 of the salt and the name
    removed: dict[str, int]
    base: Hashed
    base_events: int  # that the base had learned before the log begins
    log: Hashed
    model: Hashed
    scores: str  # SHA-256

    def names(self, task: Any) -> bool:
        """Return whether it is about a task."""
        return any(hash_name(salt, task) == digest for salt, digest in self.tasks)


decode_certificate = msgspec.json.Decoder(Certificate).decode


def read_certificate(content: bytes) -> Certificate:
    """Return the certificate of a file, which may be the service's answer that holds it."""
    found = msgspec.json.decode(content)
    if isinstance(found, dict):
        found = found.get("certificate", found)
    return msgspec.convert(found, Certificate)


def hash_name(salt: str, task: Any) -> str:
    """Return the SHA-256 of a name; without the salt nobody can try out names."""
    return hash_bytes((salt + name_key(task)).encode())


def hash_bytes(content: bytes) -> str:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_log(store: Store, last: int) -> Generator[float, None, str]:
    """Return the SHA-256 of all changes up to the last; yields between parts."""
    digest, at = hashlib.sha256(), -1
    query = "SELECT * FROM change WHERE sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?"
    while rows := store.execute(query, at, last, COPIED_ROWS).fetchall():
        for at, count, _, body in rows:
            digest.update(b"%d %d %d\n" % (at, count, len(body)))
            digest.update(body)
        yield 0.0
    return digest.hexdigest()


class BaseKnowsError(RequestError):
    """The model that the log begins with knows some of the tasks."""

    def __init__(self, tasks: Iterable[str], sequence: int) -> None:
        self.tasks = frozenset(tasks)
        reason = (
            f"the model that the log begins with, at change {sequence:,}, knows this task: what it "
            "learned before cannot be undone; start with --trim-log to forget the personal part"
        )
        super().__init__(reason, status=409)


class Replay(durable.Closable):
    """Log of a store without some tasks, in another folder, and the model that follows from it.

    A *place* is the number of events that the old model had learned. Predictions whose answers
    come late depend on the model, so they are made again at the place where they were made.
    """

    def __init__(self, old: Store, folder: Path, tasks: Iterable[str]) -> None:
        settings = replace(
            old.settings,
            keep_log=True,
            pending_seconds=float("inf"),
            pending_events=NO_LIMIT,
            pending_bytes=NO_LIMIT,
        )
        self.old, self.tasks = old, frozenset(tasks)
        key = hash_bytes(encode(sorted(self.tasks)))
        self.new = Store(folder, settings)
        if self.new.value("SELECT value FROM setting WHERE name = 'tasks'") not in (None, key):
            self.new.close()
            shutil.rmtree(folder)  # of other tasks
            self.new = Store(folder, settings)
        self.new.execute("INSERT OR REPLACE INTO setting VALUES ('tasks', ?)", key)
        self.served: ServedModel
        self.removed = 0  # events
        self.base = old.execute("SELECT * FROM checkpoint ORDER BY sequence LIMIT 1").fetchone()
        self._scanned = self.old_sequence = self.base[0]  # changes of the old log
        self._first: int | None = None  # event to remove
        self._late: dict[int, list[int]] = {}  # sequence numbers of late answers, by place
        self._waiting: dict[int, list[PendingEvent]] = {}  # events without an answer, by place
        self._pieces: list[tuple[int, Change]] = []  # with their first sequence numbers
        self._read: list[Change] = []  # of the old log, and not yet replayed

    def close(self) -> None:
        """Close the new folder."""
        self.new.close()

    @property
    def share(self) -> float:
        """Share of the log that is done."""
        done, last = self.old_sequence - self.base[0], self._scanned - self.base[0]
        return done / last if last else 0.0

    # Beginning, or going on after a kill

    def open(self) -> Iterator[float]:
        """Load the model to replay from: a checkpoint before the first event of the tasks."""
        yield from self._scan()
        model = yield from in_thread(lambda: load(self.old.folder / self.base[1]))
        self.base_events, base = model.events, ServedModel(model)
        if known := [task for task in self.tasks if base.knows(task)]:
            raise BaseKnowsError(known, self.base[0])
        position = self.new.value("SELECT value FROM setting WHERE name = 'replay'")
        if position is None:
            yield from self._copy()
            position = self.new.value("SELECT value FROM setting WHERE name = 'replay'")
        self.old_sequence, self.place, self._start = msgspec.json.decode(position)
        sequence, file, scores = self.new.last_checkpoint()
        path = self._path(file)
        model = yield from in_thread(lambda: load(path))
        self.served = ServedModel(model, decode_scores(scores or b"{}"), sequence)
        if self.place < 0:  # of a new replay
            self.place = self._start = model.events
        self._saved = sequence
        while changes := self.new.changes_after(self.served.sequence):
            self.served.apply(changes)
            yield 0.0
        self.sequence = self.served.sequence

    def _scan(self) -> Iterator[float]:
        """Find events to remove and late answers, up to the end of the old log."""
        while changes := self.old.changes_after(self._scanned):
            for change in changes:
                for number, event in enumerate(change.events, self._scanned + 1):
                    made = event.prediction
                    if name_key(event.task) in self.tasks:
                        self._first = self._first or number
                        self.removed += 1
                    elif made is not None and made.events is not None:
                        self._late.setdefault(made.events, []).append(number)
                self._scanned += change.count
            yield 0.0

    def _copy(self) -> Iterator[float]:
        """Copy what comes before the checkpoint to replay from."""
        last = self._scanned if self._first is None else self._first - 1
        last = last if self.tasks else self.base[0]
        rows = self.old.execute("SELECT * FROM checkpoint WHERE sequence <= ?", last).fetchall()
        start, *_ = max(rows)
        for table in ("change", "learned"):
            copied = 1
            while copied:
                query = f"SELECT * FROM {table} WHERE sequence > ? AND sequence <= ? LIMIT ?"
                at = self.new.value(f"SELECT coalesce(max(sequence), -1) FROM {table}")
                with self.new.transaction(sync=False):
                    copied = self._insert(table, self.old.execute(query, at, start, COPIED_ROWS))
                yield 0.0
        with self.new.transaction(sync=False):
            self._insert("checkpoint", rows)
            self._insert("setting", [("replay", encode([start, -1, -1]).decode())])

    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> int:
        """Put rows into a table of the new folder, within a transaction; return how many."""
        given = list(rows)
        for row in given:
            marks = ",".join("?" * len(row))
            self.new.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *row)
        return len(given)

    def _path(self, file: str) -> Path:
        path = self.new.folder / file
        return path if path.exists() else self.old.folder / file

    # Replaying

    def advance(self, last: int = NO_LIMIT) -> bool:
        """Replay for a moment, up to a change of the new log; False at the end."""
        deadline = time.perf_counter() + STEP_SECONDS
        for _ in self._scan():
            pass
        self._read = self._read or self.old.changes_after(self.old_sequence)
        self._find_waiting(self._read)
        is_end = not self._read
        with self.new.transaction(sync=False):
            while self._read and self.sequence < last:
                self._replay(self._read.pop(0))
                if time.perf_counter() > deadline:
                    break
            self._apply()
            position = encode([self.old_sequence, self.place, self._start]).decode()
            self.new.execute("INSERT OR REPLACE INTO setting VALUES ('replay', ?)", position)
        return not is_end and self.sequence < last

    def _find_waiting(self, changes: Iterable[Change]) -> None:
        """Read the events that were predicted meanwhile and have no answer."""
        events = sum(map(len, map(attrgetter("events"), changes)))
        query = "SELECT body FROM pending WHERE events >= ? AND events < ?"
        self._waiting = {}
        for body in self.old.values(query, self.place, self.place + events):
            event = decode_pending(body)
            self._waiting.setdefault(event.prediction.events or 0, []).append(event)

    def _replay(self, change: Change) -> None:
        """Append what is left of a change to the new log; it is applied later."""
        kept: Change | None = change
        if isinstance(change, Learn):
            kept = self._replay_events(change)
            self.place += len(change.events)
        elif name_key(change.task) in self.tasks:
            kept = None
        else:
            self._pieces.append((self.sequence + 1, change))
        self.old_sequence += change.count
        if kept is not None:
            self.new.append(self.sequence + 1, kept)
            self.sequence += kept.count

    def _replay_events(self, change: Learn) -> Learn | None:
        kept: list[Event] = []
        done = 0  # of them, that are applied or about to be

        def queue() -> None:
            nonlocal done
            piece = msgspec.structs.replace(change, events=kept[done:])
            if piece.events or not change.events:
                self._pieces.append((self.sequence + 1 + done, piece))
            done = len(kept)

        for place, event in enumerate(change.events, self.place):
            if due := self._due(place):
                queue()
                self._predict(due)
            if name_key(event.task) in self.tasks:
                continue
            made = event.prediction
            if made is not None and made.events is not None and made.events >= self._start:
                found = self.new.pending([event.id or ""])
                if not found:  # it was not stored when its place was replayed
                    queue()
                    found = self._predict([event])
                event = msgspec.structs.replace(event, prediction=found[event.id or ""].prediction)
            kept.append(event)
        queue()
        if not kept and change.events:
            return None
        return msgspec.structs.replace(change, events=kept)

    def _due(self, place: int) -> list[Any]:
        """Return the events of others that were predicted at a place."""
        late = map(self._event, self._late.pop(place, []))
        events: list[Any] = [*self._waiting.get(place, []), *late]
        return [event for event in events if name_key(event.task) not in self.tasks]

    def _event(self, number: int) -> Event:
        query = "SELECT max(sequence) FROM change WHERE sequence <= ?"
        first = self.old.value(query, number)
        change = self.old.changes_after(first - 1, 1)[0]
        assert isinstance(change, Learn)
        return change.events[number - first]

    def _predict(self, events: list[Any]) -> dict[str, PendingEvent]:
        """Predict events by the model as it is now, and let them wait for their answers."""
        self._apply()
        made = {event.id: event for event in self.served.respond(events)[1]}
        self.new.put_pending(list(made.values()))
        return made

    def _apply(self) -> None:
        changes = [change for _, change in self._pieces]
        for (first, change), reason in zip(self._pieces, self.served.apply(changes), strict=True):
            if reason is not None:
                query = "DELETE FROM learned WHERE sequence >= ? AND sequence < ?"
                self.new.execute(query, first, first + change.count)
                self.place -= change.count
        self._pieces = []

    # Ending

    def save(self) -> Iterator[float]:
        """Write a checkpoint."""
        sequence, state, scores = self.served.copy()
        save = self.new.save_model
        file = yield from in_thread(lambda: save(state, sequence))
        self.new.put_checkpoint(sequence, file, scores)
        self._saved = sequence

    def steps(self) -> Generator[float, None, Certificate]:
        """Replay all, and return the certificate; nothing was logged since then."""
        yield from self.open()
        certificate = None
        while True:
            while self.advance():
                yield 0.0
                if self.sequence - self._saved >= self.old.settings.checkpoint_events:
                    yield from self.save()
            if certificate is not None:
                return certificate
            yield from self.save()
            certificate = yield from self._certify()

    def _certify(self) -> Generator[float, None, Certificate]:
        sequence, file, scores = self.new.last_checkpoint()
        log = yield from hash_log(self.new, sequence)
        model = yield from in_thread(lambda: hash_file(self._path(file)))
        first = self.old.folder / self.base[1]
        base = yield from in_thread(lambda: hash_file(first))
        rows = self.old.execute("SELECT task, salt FROM forgetting").fetchall()
        return Certificate(
            version=__version__,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            tasks=[(salt, hash_name(salt, task)) for task, salt in rows if task in self.tasks],
            removed={"events": self.removed},
            base=Hashed(self.base[0], base),
            base_events=self.base_events,
            log=Hashed(sequence, log),
            model=Hashed(sequence, model),
            scores=hash_bytes(scores),
        )

    def finish(self, certificate: Certificate) -> None:
        """Copy what is no part of the log; may be done again. Closes the new folder."""
        old, new = self.old, self.new
        rows = old.execute("SELECT * FROM pending ORDER BY number").fetchall()
        with new.transaction():
            bodies = dict(new.execute("SELECT id, body FROM pending").fetchall())
            kept = [row for row in rows if row[3] not in self.tasks]
            missing = []
            for _, name, _, _, events, body in kept:
                if events is not None and events >= self._start and name not in bodies:
                    missing.append(decode_pending(body))
            made = self._predict(missing) if missing else {}
            for name, event in made.items():
                bodies[name] = encode(event)
            new.execute("DELETE FROM pending")
            for number, name, since, task, _, body in kept:
                body = bodies.get(name, body)
                events = decode_pending(body).prediction.events
                self._insert("pending", [(number, name, since, task, events, body)])
            new.forget_ids(self.sequence)
            removed = certificate.removed | {"predictions": len(rows) - len(kept)}
            certificate = msgspec.structs.replace(certificate, removed=removed)
            for table in ("position", "certificate", "forgetting"):
                new.execute(f"DELETE FROM {table}")
                self._insert(table, old.execute(f"SELECT * FROM {table}"))
            for task in self.tasks:
                new.execute("DELETE FROM forgetting WHERE task = ?", task)
            query = "INSERT INTO certificate (body) VALUES (?)"
            new.execute(query, encode(certificate))
            self._insert("setting", old.execute("SELECT * FROM setting"))
            for _, file, _ in new.execute("SELECT * FROM checkpoint").fetchall():
                if not self._path(file).exists():  # removed from the old folder since
                    new.execute("DELETE FROM checkpoint WHERE file = ?", file)
        new.flush()
        new.close()


# Verifying

Showing = Callable[[], AbstractContextManager[Callable[[float], object]]]


def check_certificate(
    proof: Certificate, store: Store, task: str | None, showing: Showing
) -> Iterator[tuple[str, bool]]:
    """Yield what a certificate states of a folder, and whether it holds.

    What is entered with ``showing()`` takes the share of the log that is replayed.
    """
    if task is not None:
        yield "the certificate names the task", proof.names(task)
        stored = list_stored(store.folder, task)
        yield "the database does not know the task", not any(stored.values())
    last = proof.log.sequence
    with tempfile.TemporaryDirectory() as folder, Replay(store, Path(folder), ()) as replay:
        base = store.folder / replay.base[1]
        yield "the log begins with the same model", hash_file(base) == proof.base.sha256
        yield "the log is the same", _result_of(hash_log(store, last)) == proof.log.sha256
        _result_of(replay.open())
        stated = proof.base.sequence, proof.base_events, proof.model.sequence
        found = replay.base[0], replay.base_events, last
        yield "the numbers of changes and events are the same", stated == found
        model = _hash_replayed(replay, last, showing)
        log = _result_of(hash_log(replay.new, last))
        _, _, scores = replay.served.copy()
        yield "the log follows from its events alone", log == proof.log.sha256
        yield "the model follows from the log", model == proof.model.sha256
        yield "the scores follow from the log", hash_bytes(scores) == proof.scores
        end, file, _ = store.last_checkpoint()
        served = hash_file(store.folder / file)
        replayed = _hash_replayed(replay, end, showing)
        yield "the folder's model follows from its log", replayed == served
        if task is not None:
            models = map(load, store.folder.glob("model-*.romco"))
            known = any(ServedModel(model).knows(task) for model in models)
            yield "no model in the folder knows the task", not known


def _hash_replayed(replay: Replay, last: int, showing: Showing) -> str:
    """Replay up to a change; return the SHA-256 of the model file."""
    with showing() as show:
        while replay.advance(last):
            show(replay.share)
    _, state, _ = replay.served.copy()
    return hash_file(replay.new.folder / replay.new.save_model(state, last))


def _result_of(steps: Any) -> Any:
    """Run a generator to its end; return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


# Within a service


def take_models(folder: Path) -> None:
    """Take the model files of a replay whose database is in place."""
    files = folder / NEXT
    if files.is_dir() and not (files / DATABASE).exists():
        for path in files.glob("model-*.romco"):
            path.replace(folder / path.name)
        durable.sync_folder(folder)
        shutil.rmtree(files)


def clean(store: Store) -> None:
    """Remove what a replay leaves, after its database has replaced the old one."""
    take_models(store.folder)
    if store.value("SELECT value FROM setting WHERE name = 'replay'") is not None:
        with store.transaction():
            store.execute("DELETE FROM setting WHERE name IN ('replay', 'tasks')")
        store.flush()
        store.remove_models()


class ExactForgetting:
    """Forgets tasks exactly, in the thread of a service: certificates and requests for them."""

    def __init__(self, service: Service) -> None:
        self._service, self._store = service, service.store
        self._asked: dict[str, list[Future[Any]]] = {}  # who waits for a certificate, by task
        self._replay: Replay | None = None
        self._steps: Generator[float, None, None] | None = self._run()  # goes on after a kill
        self._retry_time = 0.0

    @property
    def share(self) -> float | None:
        """Share of the log that is replayed; None while nothing is to be forgotten."""
        replay = self._replay
        return None if replay is None else replay.share

    def request(self, task: Task, known: bool, future: Future[Any]) -> None:
        """Promise to forget a task, within a transaction; RequestError if that cannot be done."""
        certificate = self._certificate(task)
        if not known and certificate is not None:
            future.set_result(certificate)  # asked for again
            return
        if not known:
            raise RequestError.unknown_task(task)
        if not self._store.keeps_log:
            raise RequestError(LOG_TRIMMED, status=409)
        if self._service.served.model.labels is not None:
            raise RequestError(ASKS_LABELS, status=409)
        row = (name_key(task), secrets.token_hex(16))
        self._store.execute("INSERT OR IGNORE INTO forgetting VALUES (?, ?)", *row)
        self._asked.setdefault(name_key(task), []).append(future)

    def advance(self) -> float | None:
        """Go on for a moment; return the seconds to wait, None if there is nothing to do."""
        if time.monotonic() < self._retry_time or not (self._asked or self._steps):
            return None
        self._steps = self._steps or self._run()
        try:
            wait = next(self._steps, None)
        except OSError:  # tried again, from where it came to
            self._retry_time = time.monotonic() + RETRY_SECONDS
            self._steps = self._run()
            raise
        except Exception as error:
            self._steps = None
            self._fail(self._tasks() | self._asked.keys(), error)
            raise
        if wait is None:
            self._steps = None
        return wait

    def close(self) -> None:
        """Stop; a restart goes on."""
        if self._steps is not None:
            self._steps.close()
        self._answer(list(self._asked), StoppedError("it goes on after a restart"))

    def _run(self) -> Generator[float, None, None]:
        store, service = self._store, self._service
        while True:
            clean(store)
            tasks = self._tasks()
            self._answer(self._asked.keys() - tasks)
            if not tasks:
                return
            try:
                with Replay(store, store.folder / NEXT, tasks) as replay:
                    self._replay = replay
                    certificate = yield from replay.steps()
                    replay.finish(certificate)
            except BaseKnowsError as error:
                self._fail(error.tasks, error)
                continue
            finally:
                self._replay = None
            try:
                store.replace_database()
            except StoreError:
                store.reconnect()
                raise
            service.replace_model(replay.served)

    def _tasks(self) -> set[str]:
        return set(self._store.values("SELECT task FROM forgetting"))

    def _fail(self, tasks: Iterable[str], error: Exception) -> None:
        """Give up to forget tasks; nothing of them has changed."""
        with self._store.transaction():
            for task in tasks:
                self._store.execute("DELETE FROM forgetting WHERE task = ?", task)
        self._answer(tasks, error)

    def _answer(self, tasks: Iterable[str], error: Exception | None = None) -> None:
        """Answer who asked to forget tasks: with the certificate, or an error."""
        for task in tasks:
            for future in self._asked.pop(task, []):
                if future.done():  # what was promised could not be written
                    continue
                if error is None:
                    future.set_result(self._certificate(task))
                else:
                    future.set_exception(error)

    def _certificate(self, task: Task) -> Certificate | None:
        """Return the last certificate about a task."""
        rows = self._store.execute("SELECT body FROM certificate ORDER BY number DESC").fetchall()
        for (body,) in rows:
            certificate = decode_certificate(body)
            if certificate.names(task):
                return certificate
        return None


def open_service(folder: Path, *given: Any) -> Service:
    """Return a service that can forget exactly; what is given is as for ``Service``."""
    take_models(folder)
    service = Service(folder, *given)
    service.exact = ExactForgetting(service)
    return service
