"""A client: retries that cannot learn twice, lists cut into batches."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, final
from urllib.parse import quote, urlencode, urlsplit

from romco.io import durable

AGAIN = (502, 503, 504)  # answers that may be better a moment later


class ServiceError(Exception):
    """What the service refused: its status, what is wrong, and the index of the bad event.

    Parameters
    ----------
    status:
        Of the HTTP answer.
    reason:
        What the service said.
    index:
        Of the bad event in the list that was sent; None where it is about no event.

    >>> str(ServiceError(422, "x is missing", 3))
    '422: x is missing (event 3)'

    """

    def __init__(self, status: int, reason: str, index: int | None = None) -> None:
        where = "" if index is None else f" (event {index})"
        super().__init__(f"{status}: {reason}{where}")
        self.status, self.reason, self.index = status, reason, index


@final
class Client:
    """Talks to a service; may be used by several threads.

    An event to learn that has no id is given one, so that a request that is sent again after
    a lost connection is learned once.

    Parameters
    ----------
    url:
        Where the service is, as it says when it starts.
    token:
        If it asks for one.
    timeout:
        Seconds to wait for an answer.
    retries:
        How often a request is sent again, each time after a longer pause.
    batch:
        Longer lists are cut into requests of so many events.

    Raises
    ------
    ValueError
        Where the address is none.

    >>> client = Client("http://127.0.0.1:8400", retries=0, timeout=1.0)
    >>> with client.wait() as service:  # doctest: +SKIP
    ...     told = service.predict({"id": "7", "task": "ann", "x": {"free": 1}})
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
        self._own = threading.local()  # one connection per thread

    def predict(self, events: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Any:
        """Predict one event, or many.

        Parameters
        ----------
        events:
            One event, or many: mappings with "task" and "x" (features by name), and an "id" if the
            answer comes later.

        Returns
        -------
        :
            A mapping per event: its label, margin and probability, or number; for one event the
            mapping alone.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        if isinstance(events, Mapping):
            return self._send("POST", "/v1/predict", dict(events))
        return self._batches("/v1/predict", [dict(event) for event in events])

    def learn(self, events: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Any:
        """Learn one event, or many; each id is learned once, however often it is sent.

        Parameters
        ----------
        events:
            One event, or many: mappings with "id" and "y" for one that was predicted with that id,
            or with "task", "x" and "y", and an "id" if there is one.

        Returns
        -------
        :
            What became of each event; for one event its mapping alone.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        if isinstance(events, Mapping):
            return self._send("POST", "/v1/learn", _named(events))
        return self._batches("/v1/learn", [_named(event) for event in events])

    def explain(self, event: Mapping[str, Any]) -> Any:
        """What each feature of an event adds to its margin.

        Parameters
        ----------
        event:
            A mapping with "task" and "x".

        Returns
        -------
        :
            The margin, the intercept and the features with what they add.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        return self._send("POST", "/v1/explain", dict(event))

    def tasks(self, **asked: Any) -> Any:
        """Tasks, page by page.

        Parameters
        ----------
        asked:
            By name: "search", "order", "descending", "offset", "limit".

        Returns
        -------
        :
            "total", how many there are, and "tasks", those asked for.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        return self._send("GET", f"/v1/tasks?{urlencode(asked)}")

    def task(self, task: str | int) -> Any:
        """What was learned of a task.

        Parameters
        ----------
        task:
            Its name.

        Returns
        -------
        :
            What the service tells of it, by name.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        return self._send("GET", f"/v1/tasks/{quote(str(task), safe='')}")

    def forget(self, task: str | int) -> Any:
        """Forget a task.

        Parameters
        ----------
        task:
            Its name.

        Returns
        -------
        :
            Its "status", and the "sequence" of the change.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        return self._send("DELETE", f"/v1/tasks/{quote(str(task), safe='')}")

    def checkpoint(self) -> Any:
        """Write a checkpoint.

        Returns
        -------
        :
            Its sequence number.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        return self._send("POST", "/v1/checkpoint")["sequence"]

    def model(self, path: str | Path) -> None:
        """Put the model file somewhere, for :func:`romco.load`.

        Parameters
        ----------
        path:
            Where; what is there is replaced once all of it has come.

        Raises
        ------
        ServiceError
            Where the service refuses; it tells the status, the reason and the bad event's index.
        OSError
            Where there is no connection after all retries.

        """
        durable.replace(path, [self._request("GET", "/v1/model", None)])

    def ready(self) -> bool:
        """Whether the service predicts and learns; does not wait.

        Returns
        -------
        :
            True or False; no service is False, too.

        """
        try:
            status, _ = self._once("GET", "/readyz", None)
        except (OSError, http.client.HTTPException):
            self.close()
            return False
        return status == 200

    def wait(self, seconds: float = 30.0) -> Self:
        """Wait until the service is ready.

        Parameters
        ----------
        seconds:
            For how long at most.

        Returns
        -------
        :
            The client itself.

        Raises
        ------
        TimeoutError
            Where it does not get ready.

        """
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end:
                raise TimeoutError(f"no service at {self._parts.netloc} after {seconds:g} s")
            time.sleep(0.05)
        return self

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Within

    def _batches(self, path: str, events: list[dict[str, Any]]) -> list[Any]:
        answers: list[Any] = []
        for begin in range(0, len(events), self._batch):
            try:
                answers += self._send("POST", path, events[begin : begin + self._batch])
            except ServiceError as error:
                if error.index is None:
                    raise
                raise ServiceError(error.status, error.reason, begin + error.index) from None
        return answers

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        return json.loads(self._request(method, path, data))

    def _request(self, method: str, path: str, data: bytes | None) -> bytes:
        """The answer; sends again what had none, after 0.1, 0.2, 0.4 ... seconds."""
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                status, answer = self._once(method, path, data)
            except (OSError, http.client.HTTPException):
                self.close()
                if last:
                    raise
            else:
                if status < 400:
                    return answer
                if status not in AGAIN or last:
                    raise _error(status, answer)
            time.sleep(0.1 * 2**attempt * random.uniform(0.5, 1.5))
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
        known: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if known is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._parts.hostname is not None
            known = kind(self._parts.hostname, self._parts.port, timeout=self._timeout)
            self._own.connection = known
        return known


def _named(event: Mapping[str, Any]) -> dict[str, Any]:
    return dict(event) if "id" in event else {**event, "id": uuid.uuid4().hex}


def _error(status: int, answer: bytes) -> ServiceError:
    try:
        told = json.loads(answer)
        return ServiceError(status, str(told["error"]), told.get("index"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "the service gave no reason")
