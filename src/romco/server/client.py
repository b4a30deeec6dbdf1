"""Client: retries that cannot learn twice, long lists sent in batches."""

import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from urllib3 import BaseHTTPResponse, PoolManager, Retry
from urllib3.exceptions import HTTPError

from romco.io import durable
from romco.server.routes import BY_NAME

RETRIED = (502, 503, 504)  # statuses that may be better a moment later
PAUSE_SECONDS = 0.1  # before the second retry, doubled with each further one
MAX_CONNECTIONS = 32  # kept open, for several threads

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


class Client(durable.Closable):
    """Client of a service; several threads may use it.

    Events are mappings; one alone is answered by a mapping, an iterable of them by a list. One to
    learn that has no id is given one, so that a request that is sent again after a lost connection
    is learned once. All methods raise :class:`ServiceError` where the service refuses, and OSError
    where there is no connection after all retries.

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
        self._url, self._batch = url.rstrip("/"), batch
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        again = Retry(
            retries,
            allowed_methods=None,  # all of them: an id is learned once
            status_forcelist=RETRIED,
            backoff_factor=PAUSE_SECONDS,
            backoff_jitter=PAUSE_SECONDS,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        self._pool = PoolManager(
            maxsize=MAX_CONNECTIONS, timeout=timeout, retries=again, headers=headers
        )

    def predict(self, events: Events) -> Any:
        """Predict events: "task", "x", and "id" if their answers come later.

        "task" is a list or mapping of levels where the model has several groupings. "offset" is
        the known part of the margin, where the model has offsets; a list for classes. Returns
        "label", "probability", "margin" and "version", and with "unknown" the columns and
        categories that were never learned, so not used, if there are any.
        """
        return self._events("predict", events, dict)

    def learn(self, events: Events) -> Any:
        """Learn events, each id once: "id" and "y" if they were predicted, else "task", "x", "y".

        Returns "status" and "sequence".
        """
        return self._events("learn", events, lambda event: {"id": uuid.uuid4().hex, **event})

    def choose(self, events: Events) -> Any:
        """Choose actions: "id", "x", "task" and "actions" if needed; an id gets one choice only.

        Returns "id", "action", "probability" and "probabilities".
        """
        return self._events("choose", events, lambda event: {"id": uuid.uuid4().hex, **event})

    def reward(self, rewards: Events) -> Any:
        """Learn rewards, each id once: "id" and "reward"; return "status" and "sequence"."""
        return self._events("reward", rewards, dict)

    def choices(self, path: str | Path) -> None:
        """Download the choices that had their reward, for ``romco evaluate-policy``."""
        durable.replace(path, [self._call("choices").data])

    def explain(self, event: Mapping[str, Any]) -> Any:
        """Return what each feature of an event adds to its margin."""
        return self._call("explain", json=dict(event)).json()

    def tasks(self, **query: Any) -> Any:
        """Return "total" and a page of "tasks", by ``search``, ``order``, ``offset``, ``limit``."""
        return self._call("tasks", fields=query).json()

    def task(self, task: str | int) -> Any:
        """Return what was learned of a task."""
        return self._call("task", task).json()

    def stored(self, task: str | int) -> Any:
        """Return the events of a task in the log, and those that wait; needs the scope admin."""
        return self._call("stored", task).json()

    def forget(self, task: str | int, exact: bool = False) -> Any:
        """Forget a task, or let it never have been there (``exact``); needs the scope admin."""
        if exact:
            return self._call("forget", task, fields={"exact": "true"}, timeout=None).json()
        return self._call("forget", task).json()

    def checkpoint(self) -> int:
        """Write a checkpoint and return its sequence number; needs the scope admin."""
        return int(self._call("checkpoint").json()["sequence"])

    def model(self, path: str | Path) -> None:
        """Download the model file, for :func:`romco.load`; replaces ``path`` once it is whole."""
        durable.replace(path, [self._call("model").data])

    def ready(self) -> bool:
        """Return True if the service predicts and learns now."""
        try:
            return self._call("readyz", retries=False).status == 200
        except (OSError, ServiceError):
            return False

    def wait(self, seconds: float = 30.0) -> Self:
        """Wait until the service is ready, and return the client; TimeoutError if it is not."""
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end:
                raise TimeoutError(f"no service at {self._url} after {seconds:g} s")
            time.sleep(0.05)
        return self

    def close(self) -> None:
        """Close all connections; the next request opens another."""
        self._pool.clear()

    def _events(self, name: str, events: Events, prepare: Any) -> Any:
        """Send one event, or a list in batches; name a bad event by its place in the list."""
        if isinstance(events, Mapping):
            return self._call(name, json=prepare(events)).json()
        prepared = list(map(prepare, events))
        responses: list[Any] = []
        for begin in range(0, len(prepared), self._batch):
            try:
                responses += self._call(name, json=prepared[begin : begin + self._batch]).json()
            except ServiceError as error:
                if error.index is None:
                    raise
                raise ServiceError(error.status, error.reason, begin + error.index) from None
        return responses

    def _call(self, name: str, task: str | int = "", **options: Any) -> BaseHTTPResponse:
        """Send a request, again if there was no response; OSError if there was none at all."""
        route = BY_NAME[name]
        level = quote(str(task), safe="").replace(".", "%2E")  # else ".." would lead elsewhere
        url = self._url + route.path.replace("{task}", level)
        try:
            response = self._pool.request(route.method, url, redirect=False, **options)
        except HTTPError as error:
            raise ConnectionError(str(error)) from error
        if response.status < 400:
            return response
        try:
            refusal = response.json()
            reason, index = str(refusal["error"]), refusal.get("index")
        except (ValueError, KeyError, TypeError):
            reason, index = "the service gave no reason", None
        raise ServiceError(response.status, reason, index)
