"""How a learner forgets one task."""

from __future__ import annotations

from collections.abc import Mapping

from romco.learners.base import Axes, Learner
from romco.learners.capabilities import ForgetsTasks
from romco.learners.registry import learner


def forget(old: Learner, task: int) -> None:
    """Make a task as if it had never been; what other tasks learned from it stays.

    By the learner's own way if it has one, else by setting the task's entries of every array
    (see ``shapes``) to what a new learner has there.

    >>> import numpy as np, romco
    >>> ogd = romco.learner("ogd-unique", n_features=1, n_tasks=2)
    >>> ogd.update(romco.Round(np.array([0, 1]), np.ones((2, 1)), np.ones(2)))
    >>> forget(ogd, 0)
    >>> ogd.weights()
    array([[0., 1.]])
    """
    if isinstance(old, ForgetsTasks):
        old.forget_task(task)
    elif old.keeps_events:
        raise ValueError(f"{old.name} keeps past events, so it cannot forget a single task")
    elif old.task_axes is None:
        raise ValueError(f"{old.name} does not say what it keeps of a task, so it forgets none")
    else:
        _clear(old, old.task_axes, task)


def unstart(old: Learner, task: int) -> None:
    """Take back the start of a task that has had no event yet: there is none to be forgotten.

    >>> import numpy as np, romco
    >>> trml = romco.learner("trml", n_features=1, n_tasks=2)
    >>> trml.arrays()["w"][:, 1] = 7.0
    >>> unstart(trml, 1)
    >>> trml.weights()
    array([[0., 0.]])
    """
    if old.keeps_events and old.task_axes is not None:
        _clear(old, old.task_axes, task)
    else:
        forget(old, task)


def _clear(old: Learner, task_axes: Mapping[str, Axes], task: int) -> None:
    kept = old.arrays()
    new = learner(old.name, old.n_features, old.n_tasks, **old.parameters).arrays()
    for name in task_axes.keys() & kept.keys():  # some options do without some arrays
        for axis in task_axes[name]:
            at = (slice(None),) * axis + (task,)
            kept[name][at] = new[name][at]
