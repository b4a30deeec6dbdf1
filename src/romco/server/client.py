"""Client: retries that cannot learn twice, long lists sent in batches."""

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from romco.io import durable
from romco.server.routes import BY_NAME

RETRIED = (502, 503, 504)  # statuses that may be better a moment later
FIRST_PAUSE_SECONDS = 0.1  # doubled with each retry

Events = Mapping[str, Any] | Iterable[Mapping[str, Any]]


class ServiceError(Exception):
    """Refusal by the service: HTTP status, reason, and index of the bad event, if any.

    >>> str(ServiceError(422, "x is missing", 3))
    '422: x is missing (event 3)'
    """

    def __init__(self, status: int, reason: str, index: int | None = None) -> None:
        where = "" if index is None else f" (event {index})"
        super().__init__(f"{status}: {reason}{where}")
        self.status, self.reason, self.index = status, reason, index


class Client(durable.Closing):
    """Client of a service; several threads may use it.

    An event to learn that has no id is given one, so that a request that is sent again after
    a lost connection is learned once. All methods raise :class:`ServiceError` where the service
    refuses, and OSError where there is no connection after all retries.

    ``timeout`` is in seconds; a request is sent again up to ``retries`` times, each time after
    a longer pause; lists longer than ``batch`` are sent in several requests.

    >>> client = Client("http://127.0.0.1:8400", retries=0, timeout=1.0)
    >>> with client.wait() as service:  # doctest: +SKIP
    ...     service.predict({"id": "7", "task": "ann", "x": {"free": 1}})
    ...     service.learn({"id": "7", "y": "spam"})
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8400",
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 6,
        batch: int = 500,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a service: expected http://host:port")
        self._parts, self._token = parts, token
        self._timeout, self._retries, self._batch = timeout, retries, batch
        self._local = threading.local()  # one connection per thread

    def predict(self, events: Events) -> Any:
        """Predict one event, or many: mappings with "task", "x", and "id" if answers come later.

        "offset" is the known part of an event's margin, where the model has offsets.

        Returns a mapping per event with "label", "probability", "margin" and "version", and with
        "unknown", the columns and categories not used since they were never learned, if there
        are any; for one event the mapping alone.
        """
        return self._events("predict", events, dict)

    def learn(self, events: Events) -> Any:
        """Learn one event, or many; each id is learned once, however often it is sent.

        Events have "id" and "y" if they were predicted with that id, else "task", "x" and "y".
        Returns "status" and "sequence" of each; for one event the mapping alone.
        """
        return self._events("learn", events, _with_id)

    def explain(self, event: Mapping[str, Any]) -> Any:
        """Return what each feature of an event adds to its margin."""
        return self._call("explain", body=dict(event))

    def tasks(self, **query: Any) -> Any:
        """Return "total" and a page of "tasks", by ``search``, ``order``, ``offset``, ``limit``."""
        return self._call("tasks", query=query)

    def task(self, task: str | int) -> Any:
        """Return what was learned of a task."""
        return self._call("task", task=task)

    def forget(self, task: str | int) -> Any:
        """Forget a task; needs the scope admin."""
        return self._call("forget", task=task)

    def checkpoint(self) -> int:
        """Write a checkpoint and return its sequence number; needs the scope admin."""
        return int(self._call("checkpoint")["sequence"])

    def model(self, path: str | Path) -> None:
        """Download the model file, for :func:`romco.load`; replaces ``path`` once it is whole."""
        durable.replace(path, [self._request("model")])

    def ready(self) -> bool:
        """Return True if the service predicts and learns now."""
        try:
            status, _ = self._once(*self._target("readyz"), None)
        except (OSError, http.client.HTTPException):
            self.close()
            return False
        return status == 200

    def wait(self, seconds: float = 30.0) -> Self:
        """Wait until the service is ready, and return the client; TimeoutError if it is not."""
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end:
                raise TimeoutError(f"no service at {self._parts.netloc} after {seconds:g} s")
            time.sleep(0.05)
        return self

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _events(self, name: str, events: Events, prepare: Any) -> Any:
        """Send one event, or a list in batches; name a bad event by its place in the list."""
        if isinstance(events, Mapping):
            return self._call(name, body=prepare(events))
        prepared = [prepare(event) for event in events]
        responses: list[Any] = []
        for begin in range(0, len(prepared), self._batch):
            try:
                responses += self._call(name, body=prepared[begin : begin + self._batch])
            except ServiceError as error:
                if error.index is None:
                    raise
                raise ServiceError(error.status, error.reason, begin + error.index) from None
        return responses

    def _call(self, name: str, **given: Any) -> Any:
        return json.loads(self._request(name, **given))

    def _target(
        self, name: str, task: str | int | None = None, query: dict[str, Any] | None = None
    ) -> tuple[str, str]:
        """Return method and path of a route."""
        route = BY_NAME[name]
        path = route.path.replace("{task}", quote(str(task), safe=""))
        return route.method, f"{path}?{urlencode(query)}" if query else path

    def _request(self, name: str, body: Any = None, **target: Any) -> bytes:
        """Send a request, again if there was no response, after 0.1, 0.2, 0.4 ... seconds."""
        method, path = self._target(name, **target)
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                status, response = self._once(method, path, data)
            except (OSError, http.client.HTTPException):
                self.close()
                if last:
                    raise
            else:
                if status < 400:
                    return response
                if status not in RETRIED or last:
                    raise _error(status, response)
            time.sleep(FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection.request(method, self._parts.path.rstrip("/") + path, data, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._parts.hostname is not None
            connection = kind(self._parts.hostname, self._parts.port, timeout=self._timeout)
            self._local.connection = connection
        return connection


def _with_id(event: Mapping[str, Any]) -> dict[str, Any]:
    return dict(event) if "id" in event else {**event, "id": uuid.uuid4().hex}


def _error(status: int, response: bytes) -> ServiceError:
    try:
        refusal = json.loads(response)
        return ServiceError(status, str(refusal["error"]), refusal.get("index"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "the service gave no reason")
