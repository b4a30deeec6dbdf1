"""Durable state of a service: one SQLite database and one model file in a folder.

A restart loads the last model file and replays the changes after it. The log begins after the
first checkpoint: that is the last one, unless the log is kept. The folder may be copied while the
service is stopped, or backed up by ``sqlite3 romco.sqlite .backup`` plus the model files.
"""

import errno
import hashlib
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any

import msgspec

from romco.files import load
from romco.io import durable
from romco.io.modelfile import ModelFileError, save_state
from romco.model import Model
from romco.server.protocol import Answer, Row, Settings, StoreError, Task, encode, name_key

DATABASE = "romco.sqlite"
NEXT = "next"  # folder of a replay, see ``romco.forgetting``
FORMAT = 4
TRIM_ROWS = 200  # rows that one transaction removes at most
MAX_CHECKPOINTS = 16  # of a log that is kept
REPLAY_ROWS = 100
FORGOTTEN_LABEL = "(forgotten)"  # of a prediction
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# "secure_delete" overwrites what is forgotten
BUSY_TIMEOUT = "busy_timeout=2000"
PRAGMAS = ("journal_mode=WAL", "secure_delete=ON", BUSY_TIMEOUT, "synchronous=FULL")
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE change (  -- the log: a row per request, its first sequence number, and JSON
    sequence INTEGER PRIMARY KEY, count INTEGER NOT NULL, crc32 INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE TABLE learned (  -- ids that were learned, and their answers, as hashes
    sequence INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, answer BLOB NOT NULL
);
CREATE TABLE pending (  -- predicted events that wait for their answers
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL,
    task TEXT NOT NULL, events INTEGER, body BLOB NOT NULL
);
CREATE INDEX pending_events ON pending (events);
CREATE TABLE position (source TEXT PRIMARY KEY, position TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoint (  -- model files, which hold all changes up to a sequence number
    sequence INTEGER PRIMARY KEY, file TEXT NOT NULL, scores BLOB NOT NULL
);
CREATE TABLE forgetting (task TEXT PRIMARY KEY, salt TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE certificate (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
PRAGMA user_version={FORMAT};
COMMIT;
"""


# What the log holds


class Prediction(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Prediction as it was made; ``context`` belongs to the learner, for late answers."""

    label: Answer | None
    probability: float | None
    margin: float
    context: list[float] | None = None
    events: int | None = None  # that the model had learned
    low: float | None = None  # of a number: its 90 % interval
    high: float | None = None


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Event to learn, with the prediction made before, if there was one."""

    id: str | None
    task: Task
    x: Row
    y: Answer
    prediction: Prediction | None = None
    offset: float | list[float] | None = None


class Learn(msgspec.Struct, array_like=True, frozen=True, tag="learn"):
    """Events that are learned together or not at all; a position of a source, if they have one."""

    events: list[Event]
    source: str | None = None
    position: str | None = None

    @property
    def count(self) -> int:
        """Sequence numbers used: one per event, and one if only a position moves."""
        return max(1, len(self.events))


class Forget(msgspec.Struct, array_like=True, frozen=True, tag="forget"):
    """Task to forget."""

    task: Task
    count = 1
    events = ()


class PendingEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Predicted event that waits for its answer."""

    id: str
    task: Task
    x: Row
    prediction: Prediction
    offset: float | list[float] | None = None


Change = Learn | Forget
decode_change = msgspec.json.Decoder(Change).decode
decode_pending = msgspec.json.Decoder(PendingEvent).decode


class DamagedError(ValueError):
    """A folder that was changed or lost data after it had been written."""


@lru_cache(1 << 12)
def hash_answer(answer: Answer) -> bytes:
    """Return 8 bytes for an answer."""
    return hashlib.blake2b(name_key(answer).encode(), digest_size=8).digest()


@lru_cache(1 << 10)
def hash_id(identity: str) -> bytes:
    """Return 16 bytes for an id: ids of any length cost the same, and none is kept as text."""
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


class Store(durable.Closable):
    """Folder of one service, locked while it is open; used by one thread at a time."""

    file_kind = "model"  # of the files of checkpoints
    decode_change: Callable[[bytes], Any] = staticmethod(decode_change)

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = ExitStack()
        try:
            self._check_lock = self._lock.enter_context(durable.exclusive(folder / DATABASE))
            with _opening():
                self._connect()
                newest = self.value("SELECT max(time) FROM pending")
                if settings.keep_log is not None:
                    row = "log", "kept" if settings.keep_log else "trimmed"
                    self._db.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", row)
                kept = self.value("SELECT value FROM setting WHERE name = 'log'") == "kept"
                self.keeps_log = kept or self.value("SELECT count(*) FROM forgetting") > 0
        except BlockingIOError:
            why = "in use by another server: stop it, or use another"
            raise ValueError(f"the folder {folder.name} is {why}") from None
        except BaseException:
            self.close()
            raise
        self._clock_start = max(time.time(), newest or 0.0) - time.monotonic()

    def close(self) -> None:
        """Close the database and release the folder."""
        with suppress(sqlite3.Error, AttributeError):
            self._db.close()
        self._lock.close()

    def reconnect(self) -> None:
        """Open the database anew after an I/O error; StoreError unless it can be written."""
        with suppress(sqlite3.Error):
            self._db.close()
        with self._database():
            self._connect()
        with self.transaction():
            self._db.execute("INSERT OR REPLACE INTO setting VALUES ('probe', datetime('now'))")

    @contextmanager
    def _database(self) -> Iterator[None]:
        """Raise errors of SQLite and of the system as StoreError.

        Where locks do not work SQLite waits for them, for ten seconds; this is found out before.
        """
        try:
            self._check_lock()
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise StoreError(errno.ENOSPC, "no room on the disk") from error
            raise StoreError(errno.EIO, f"the database cannot be used ({error})") from error
        except OSError as error:
            raise StoreError(error.errno, str(error.strerror)) from error

    def _connect(self) -> None:
        path = self.folder / DATABASE
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}")
        version = self.value("PRAGMA user_version")
        if version == 0:
            self._db.executescript(SCHEMA)
        elif version != FORMAT:
            raise DamagedError(
                f"{self.folder.name} has format {version}, this "
                f"library reads format {FORMAT}: use the romco that wrote it"
            )
        self._count()

    def _count(self) -> None:
        rows = self._db.execute("SELECT count(*), coalesce(sum(length(body)), 0) FROM pending")
        self.pending_events, self.pending_bytes = rows.fetchone()
        self.ids = self.value("SELECT count(*) FROM learned")

    def execute(self, query: str, *given: Any) -> sqlite3.Cursor:
        """Run a statement, within a transaction if it changes anything."""
        return self._db.execute(query, given)

    def value(self, query: str, *given: Any) -> Any:
        """Return the first value of a query, None if there is no row."""
        return next(self._db.execute(query, given), (None,))[0]

    def values(self, query: str, *given: Any) -> list[Any]:
        """Return the first value of each row of a query."""
        return list(map(itemgetter(0), self._db.execute(query, given)))

    def now(self) -> float:
        """Return seconds on a clock that never goes back, neither now nor after a restart."""
        return self._clock_start + time.monotonic()

    # Starting

    def load(self, new: Callable[[], Model], origin: str = "") -> tuple[Model, int, bytes]:
        """Return model, sequence and scores of the last checkpoint.

        ``new`` makes the model of a new folder, ``origin`` is name and SHA-256 of the model file it
        comes from; another one than the folder began with is refused.
        """
        with _opening():
            previous = self.value("SELECT value FROM setting WHERE name = 'origin'")
            if previous is None:
                self.put_checkpoint(0, self.save_model(new().state(), 0), b"")
                with self.transaction():
                    self._db.execute("INSERT INTO setting VALUES ('origin', ?)", (origin,))
            elif origin and origin != previous:
                name, events = self.folder.name, self.last_sequence()
                raise ValueError(
                    f"the folder {name} holds {_title(previous)} with {events:,} changes, not "
                    f"{_title(origin)}: give another folder by --data to begin with that file, "
                    f"or leave the file out to continue with {name}"
                )
            row = self.last_checkpoint()
            if row is None or list(map(type, row)) != [int, str, bytes]:
                raise DamagedError(f"{self.folder.name} has no whole checkpoint: restore a backup")
        sequence, file, scores = row
        self.changes_after(sequence)  # raises where the next ones are missing
        try:
            model = load(self.folder / file)
        except (ModelFileError, OSError) as error:
            raise DamagedError(f"{file} cannot be used: {error}; restore a backup") from error
        kind = "model" if isinstance(model, Model) else "chooser"
        if kind != self.file_kind:
            raise ValueError(f"{self.folder.name} holds a {kind}: only choosers take --actions")
        self.remove_models()  # left by a kill
        return model, sequence, scores

    def changes_after(self, sequence: int, limit: int = REPLAY_ROWS) -> list[Change]:
        """Return the next changes of the log; DamagedError if they do not hold together."""
        query = "SELECT * FROM change WHERE sequence > ? ORDER BY sequence LIMIT ?"
        changes = []
        with self._database():
            rows = self._db.execute(query, (sequence, limit)).fetchall()
        for first, count, crc32, body in rows:
            try:
                change = self.decode_change(body) if zlib.crc32(body) == crc32 else None
            except (ValueError, TypeError):
                change = None
            if change is None or change.count != count or first != sequence + 1:
                raise DamagedError(
                    f"change {sequence + 1:,} in {DATABASE} is damaged or missing: restore the "
                    "folder from a backup; nothing was changed"
                )
            changes.append(change)
            sequence += count
        return changes

    def check(self) -> None:
        """Raise DamagedError unless SQLite finds the database whole."""
        with _opening():
            outcome = self.value("PRAGMA integrity_check")
        if outcome != "ok":
            raise DamagedError(f"{self.folder.name}/{DATABASE} is damaged: {outcome}")

    def last_sequence(self) -> int:
        """Return the sequence number of the last change in the log or the checkpoint."""
        with _opening():
            logged = self.value("SELECT max(sequence + count - 1) FROM change")
            return int(logged or self.value("SELECT max(sequence) FROM checkpoint") or 0)

    # Changes, within a transaction

    @contextmanager
    def transaction(self, sync: bool = True) -> Iterator[None]:
        """Commit what is done within, or nothing; StoreError if it cannot be written."""
        with self._database():
            level = "FULL" if sync and self.settings.durability == "durable" else "NORMAL"
            self._db.execute(f"PRAGMA synchronous={level}")
            try:
                with self._db:  # commits or rolls back
                    self._db.execute("BEGIN IMMEDIATE")
                    yield
            except BaseException:
                with suppress(sqlite3.Error):
                    self._count()
                raise

    def learned(self, ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Return sequence number and hash of the answer of those ids that were learned."""
        hashes = dict(zip(map(hash_id, ids), ids, strict=True))
        rows = self._in("SELECT id, sequence, answer FROM learned WHERE id IN", list(hashes))
        return {hashes[key]: (sequence, answer) for key, sequence, answer in rows}

    def pending(self, ids: Sequence[str]) -> dict[str, PendingEvent]:
        """Return those of the ids that wait for an answer and are not too old."""
        if not self.pending_events:
            return {}
        query = "SELECT id, body FROM pending WHERE time >= ? AND id IN"
        pending = {}
        for identity, body in self._in(query, ids, self.now() - self.settings.pending_seconds):
            pending[identity] = decode_pending(body)
        return pending

    def _in(self, query: str, values: Sequence[Any], *given: Any) -> list[Any]:
        marks = ",".join("?" * len(values))
        return self._db.execute(f"{query} ({marks})", (*given, *values)).fetchall()

    def append(self, first: int, change: Change) -> None:
        """Add a change to the log, with all that follows from it."""
        body = encode(change)
        row = (first, change.count, zlib.crc32(body), body)
        self._db.execute("INSERT INTO change VALUES (?, ?, ?, ?)", row)
        if isinstance(change, Forget):
            self._drop_pending("task = ?", name_key(change.task))
            return
        if change.source is not None and change.position is not None:
            position = (change.source, change.position)
            self._db.execute("INSERT OR REPLACE INTO position VALUES (?, ?)", position)
        learned = []
        for sequence, event in enumerate(change.events, first):
            if event.id is not None:
                learned.append((sequence, hash_id(event.id), hash_answer(event.y)))
        self._db.executemany("INSERT INTO learned VALUES (?, ?, ?)", learned)
        self.ids += len(learned)
        self._drop_pending_ids(list(map(attrgetter("id"), change.events)))

    def forget_ids(self, sequence: int) -> None:
        """Remove ids that were learned too many changes ago."""
        query = "DELETE FROM learned WHERE sequence <= ?"
        self.ids -= self._db.execute(query, (sequence - self.settings.ids,)).rowcount

    def unlearn(self, numbers: range) -> None:
        """Let the ids of a change that could not be applied be learned again."""
        query = "DELETE FROM learned WHERE sequence >= ? AND sequence < ?"
        with self.transaction():
            self.ids -= self._db.execute(query, (numbers.start, numbers.stop)).rowcount

    def positions(self) -> dict[str, str]:
        """Return how far each source was read."""
        return dict(self._db.execute("SELECT source, position FROM position").fetchall())

    # Pending events

    def put_pending(self, events: Sequence[PendingEvent]) -> int:
        """Keep events whose answers are not known yet; return how many older ones were dropped."""
        by_id = {event.id: event for event in events}
        for learned in self.learned(list(by_id)):
            del by_id[learned]
        self._drop_pending_ids(list(by_id))
        query = "INSERT INTO pending (id, time, task, events, body) VALUES (?, ?, ?, ?, ?)"
        now = self.now()
        for event in by_id.values():
            body = encode(event)
            row = event.id, now, name_key(event.task), event.prediction.events, body
            self._db.execute(query, row)
            self.pending_bytes += len(body)
        self.pending_events += len(by_id)
        dropped, most, limit = 0, self.settings.pending_events, self.settings.pending_bytes
        while self.pending_events > most or self.pending_bytes > limit:
            excess = min(max(1, self.pending_events - most), TRIM_ROWS)
            query = "number IN (SELECT number FROM pending ORDER BY number LIMIT ?)"
            dropped += self._drop_pending(query, excess)
        return dropped

    def expire_pending(self) -> int:
        """Remove events that have waited too long; return how many."""
        oldest = self.now() - self.settings.pending_seconds
        with self._database():
            first = self.value("SELECT time FROM pending ORDER BY number LIMIT 1")
        if first is None or first >= oldest:
            return 0
        query = "number IN (SELECT number FROM pending WHERE time < ? ORDER BY number LIMIT ?)"
        with self.transaction(sync=False):
            return self._drop_pending(query, oldest, TRIM_ROWS)

    def forget_labels(self, known: Collection[Any]) -> None:
        """Take labels that are no longer known out of predictions that wait."""
        names = frozenset(map(name_key, known))
        with self.transaction():
            for number, body in self._db.execute("SELECT number, body FROM pending").fetchall():
                event = decode_pending(body)
                label = event.prediction.label
                if label is not None and name_key(label) not in names:
                    made = msgspec.structs.replace(event.prediction, label=FORGOTTEN_LABEL)
                    body = encode(msgspec.structs.replace(event, prediction=made))
                    query = "UPDATE pending SET body = ? WHERE number = ?"
                    self._db.execute(query, (body, number))

    def _drop_pending_ids(self, ids: Sequence[str | None]) -> None:
        if self.pending_events and ids:
            self._drop_pending(f"id IN ({','.join('?' * len(ids))})", *ids)

    def _drop_pending(self, where: str, *given: Any) -> int:
        query = f"DELETE FROM pending WHERE {where} RETURNING length(body)"
        sizes = self.values(query, *given)
        self.pending_events -= len(sizes)
        self.pending_bytes -= sum(sizes)
        return len(sizes)

    # Checkpoints

    def save_model(self, state: dict[str, Any], sequence: int) -> str:
        """Write a model file and return its name; may run in any thread."""
        name = f"model-{sequence:020d}-{secrets.token_hex(4)}.romco"
        save_state(state, self.folder / name, self.file_kind)
        return name

    def open_model(self) -> tuple[int, IO[bytes]]:
        """Return sequence and model file of the last checkpoint, open."""
        with self._database():
            sequence, file, _ = self.last_checkpoint()
            return sequence, (self.folder / file).open("rb")

    def last_checkpoint(self) -> Any:
        """Return sequence, file and scores of the checkpoint to start from; None without one."""
        query = "SELECT * FROM checkpoint ORDER BY sequence DESC LIMIT 1"
        return self._db.execute(query).fetchone()

    def put_checkpoint(self, sequence: int, file: str, scores: bytes) -> None:
        """Make a model file the one to start from; if the log is kept some earlier ones stay."""
        with self.transaction():
            row = (sequence, file, scores)
            self._db.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)", row)
            places = self.values("SELECT sequence FROM checkpoint ORDER BY sequence")
            dropped = []
            if not self.keeps_log:
                dropped = places[:-1]
            while self.keeps_log and len(places) > MAX_CHECKPOINTS:
                inner = zip(places, places[2:], strict=False)
                gaps = [(after - before) / (sequence - before) for before, after in inner]
                dropped.append(places.pop(1 + gaps.index(min(gaps))))
            for gone in dropped:
                self._db.execute("DELETE FROM checkpoint WHERE sequence = ?", (gone,))
        self.remove_models()

    def remove_models(self) -> None:
        """Remove model files that are no checkpoint, whole or not."""
        kept = self.values("SELECT file FROM checkpoint")
        for path in self.folder.glob("*model-*.romco*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Move all of the write-ahead log into the database; StoreError while others read it."""
        if not self.empty_log():
            raise StoreError(errno.EBUSY, "another process reads the database")

    def replace_database(self) -> None:
        """Close the database and put the closed one of a replay in its place."""
        self.flush()
        with self._database():
            self._db.close()
            (self.folder / NEXT / DATABASE).replace(self.folder / DATABASE)

    def trim_log(self) -> bool:
        """Remove some changes that all checkpoints hold; return whether more are left."""
        query = (
            "DELETE FROM change WHERE sequence IN (SELECT sequence FROM change WHERE sequence <= "
            "(SELECT min(sequence) FROM checkpoint) ORDER BY sequence LIMIT ?)"
        )
        with self.transaction(sync=False):
            removed = self._db.execute(query, (TRIM_ROWS,)).rowcount
        if removed == TRIM_ROWS:
            return True
        self.empty_log()
        return False

    def empty_log(self) -> bool:
        """Empty the write-ahead log, which holds what was removed; False while others read it."""
        with self._database():
            self._db.execute("PRAGMA busy_timeout=0")
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._db.execute(f"PRAGMA {BUSY_TIMEOUT}")
        return not busy

    def pending_of(self, task: Task) -> bool:
        """Return whether predictions of a task wait for answers."""
        return bool(self.value("SELECT 1 FROM pending WHERE task = ?", name_key(task)))

    def sync(self) -> None:
        """Sync what was committed without a sync."""
        with self._database():
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @property
    def bytes(self) -> int:
        """Size of the database and its log."""
        total = 0
        for name in (DATABASE, f"{DATABASE}-wal"):
            with suppress(FileNotFoundError):
                total += (self.folder / name).stat().st_size
        return total


def list_stored(folder: Path, task: Any) -> dict[str, list[Any]]:
    """Return the events of a task in the log, and those that wait for an answer."""
    log, pending = list[Any](), list[Any]()
    key = name_key(task)
    uri = (folder / DATABASE).resolve().as_uri() + "?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        for (body,) in database.execute("SELECT body FROM change ORDER BY sequence"):
            for e in decode_change(body).events:
                if name_key(e.task) == key:
                    log.append({"id": e.id, "x": e.x, "y": e.y, "offset": e.offset})
        for (body,) in database.execute("SELECT body FROM pending WHERE task = ?", (key,)):
            waiting = decode_pending(body)
            pending.append({"id": waiting.id, "x": waiting.x, "offset": waiting.offset})
    return {"log": log, "pending": pending}


def _title(origin: str) -> str:
    name, _, digest = origin.rpartition(" ")
    return f"the model of {name} ({digest[:8]})" if name else "a model that began empty"


@contextmanager
def _opening() -> Iterator[None]:
    """Raise SQLite's errors as DamagedError, while a folder is opened."""
    try:
        yield
    except sqlite3.Error as error:
        raise DamagedError(f"{DATABASE} cannot be used: {error}; restore a backup") from error
