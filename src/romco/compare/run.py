"""Execution of runs: each becomes one file of JSON lines, written once, on any process."""

import json
import multiprocessing
import os
import pickle
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from romco.compare.plan import Run
from romco.learners import LEARNERS, Method
from romco.plugins import connect_ray

Progress = Callable[[str, int], AbstractContextManager[Callable[[Run], None]]]
Done = Callable[[Run], None]
Cluster = Callable[[list[tuple[Any, ...]]], Iterator[int]]  # runs by arguments of ``execute``
Lines = Callable[[Run, Path | None], Iterator[dict[str, Any]]]  # contents of a run's file


def execute(run: Run, results: Path, data_dir: Path | None, lines: Lines) -> Path:
    """Write the file of a run unless it exists; a half-written file is never seen."""
    done = place(run, results)
    if not done.exists():
        partial = done.with_suffix(".partial")
        with partial.open("w") as file:
            for line in lines(run, data_dir):
                file.write(json.dumps(line) + "\n")
        partial.replace(done)
    return done


def place(run: Run, results: Path) -> Path:
    """Return the path of a run's file."""
    return results / f"{run.name}.jsonl"


def perform(
    runs: Iterable[Run],
    results: Path,
    data_dir: Path | None,
    jobs: int | None,
    done: Done,
    lines: Lines,
) -> None:
    """Execute all runs that are not finished, in ``jobs`` processes (None: one per core)."""
    results.mkdir(parents=True, exist_ok=True)
    unfinished = []
    for run in dict.fromkeys(runs):
        if place(run, results).exists():
            done(run)
        else:
            unfinished.append(run)
    unfinished.sort(key=lambda run: not _is_slow(run))  # no core waits for a long run at the end
    cluster = _CLUSTER.get()
    if cluster is not None:
        arguments = [(run, results.absolute(), data_dir, lines) for run in unfinished]
        for at in cluster(arguments):
            done(unfinished[at])
        return
    jobs = min(jobs or os.cpu_count() or 1, len(unfinished))
    if jobs <= 1 or not _can_be_pickled(LEARNERS.added):
        with threadpool_limits(1):
            for run in unfinished:
                execute(run, results, data_dir, lines)
                done(run)
    else:
        _in_processes(unfinished, results, data_dir, jobs, done, lines)


@cache
def versions() -> dict[str, str]:
    """Return the versions of everything that numbers depend on."""
    packages = ("romco", "numpy", "scipy", "scikit-learn")
    installed = {name: version(name) for name in packages}
    return {"python": platform.python_version(), **installed, "machine": platform.machine()}


def shortened(value: Any) -> Any:
    """Round all floats to seven digits, which keeps files small."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    return [shortened(part) for part in value] if isinstance(value, list) else value


def _on_ray(address: str | None, arguments: list[tuple[Any, ...]]) -> Iterator[int]:
    """Call :func:`execute` with each of the arguments; yield their numbers as they finish.

    On the cluster at an address, or one that is started here; its workers see the same folders.
    """
    ray, owned = connect_ray(address)
    remote = ray.remote(max_retries=0)(_on_worker)
    try:
        added = ray.put(LEARNERS.added)
        pending = {remote.remote(added, *one): i for i, one in enumerate(arguments)}
        while pending:
            ready, _ = ray.wait(list(pending))
            for ref in ready:
                try:
                    ray.get(ref)
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                yield pending.pop(ref)
    finally:
        if owned:
            ray.shutdown()


_CLUSTER: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


@contextmanager
def performing(engine: str | None, address: str | None = None) -> Iterator[None]:
    """Perform runs on "ray" within the block; None: processes of this machine."""
    if engine not in (None, "ray"):
        raise ValueError(f"engine must be 'ray', or left out for processes here; got {engine!r}")
    token = _CLUSTER.set(None if engine is None else partial(_on_ray, address))
    try:
        yield
    finally:
        _CLUSTER.reset(token)


def _on_worker(added: Mapping[str, Method], *arguments: Any) -> None:
    """Execute a run on a Ray worker, with the driver's learners and one BLAS thread."""
    LEARNERS.update(added)
    with threadpool_limits(1):
        execute(*arguments)


def _is_slow(run: Run) -> bool:
    method = LEARNERS.get(run.learner)
    return method is not None and method.keeps_events


def _can_be_pickled(added: Mapping[str, Method]) -> bool:
    """Return True if another process can load these learners: not from ``__main__``."""
    try:
        pickle.dumps(added)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return all(method.make.__module__ != "__main__" for method in added.values())


def _in_processes(
    runs: list[Run], results: Path, data_dir: Path | None, jobs: int, done: Done, lines: Lines
) -> None:
    context = multiprocessing.get_context("spawn")  # no half-copied threads of the parent
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin_worker, initargs=(LEARNERS.added,)
    )
    try:
        futures = {pool.submit(execute, run, results, data_dir, lines): run for run in runs}
        for future in as_completed(futures):
            future.result()
            done(futures[future])
    except BaseException:  # an interrupt too: leave no process behind
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown()


def _begin_worker(added: Mapping[str, Method]) -> None:
    """Set up a process: one BLAS thread, the parent's learners, no Ctrl-C, end with the parent."""
    threadpool_limits(1)
    LEARNERS.update(added)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
