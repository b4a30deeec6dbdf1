"""Runs on a Ray cluster: they are independent and write a file each, so any worker may do any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, final

from threadpoolctl import threadpool_limits

from romco.learners import LEARNERS, Method
from romco.raycluster import joined

_WHERE: ContextVar[Ray | None] = ContextVar("where", default=None)


@final
@dataclass(frozen=True)
class Ray:
    """A cluster at an address, or one that is started here; its workers see the same folders."""

    address: str | None = None

    def perform(self, work: Callable[..., Any], given: list[tuple[Any, ...]]) -> Iterator[int]:
        """Do the work for each of the given arguments; gives their numbers as they are done."""
        ray, owned = joined(self.address)
        remote = ray.remote(max_retries=0)(_alone)
        try:
            added = ray.put(dict(LEARNERS.added))
            waiting = {remote.remote(added, work, *one): i for i, one in enumerate(given)}
            while waiting:
                ready, _ = ray.wait(list(waiting))
                for ref in ready:
                    try:
                        ray.get(ref)
                    except ray.exceptions.RayTaskError as error:
                        raise error.cause from None
                    yield waiting.pop(ref)
        finally:
            if owned:
                ray.shutdown()


@contextmanager
def performing(engine: str | None, address: str | None = None) -> Iterator[None]:
    """Within, runs are performed by an engine: "ray", or None for processes of this machine."""
    if engine not in (None, "ray"):
        raise ValueError(f"engine must be 'ray', or left out for processes here; got {engine!r}")
    token = _WHERE.set(None if engine is None else Ray(address))
    try:
        yield
    finally:
        _WHERE.reset(token)


def where() -> Ray | None:
    """The cluster on which runs are to be performed, if any."""
    return _WHERE.get()


def _alone(added: Mapping[str, Method], work: Callable[..., Any], *given: Any) -> None:
    """In a worker: the driver's learners, one BLAS thread."""
    LEARNERS.update(added)
    with threadpool_limits(1):
        work(*given)
