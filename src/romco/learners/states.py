"""Restore a learner from its state, grow it, and forget a task."""

from collections.abc import Mapping

from romco.learners.base import Arrays, Axes, Learner, State
from romco.learners.capabilities import ForgetsTasks
from romco.learners.registry import Method, known, learner
from romco.parameters import whole


def restore(state: State) -> Learner:
    """Return the learner of a state; it continues with the same bits.

    A state of an older version is upgraded. Raises ValueError where the learner or version is
    unknown, or an array does not have the declared size; sizes are checked before any allocation.

    >>> import romco
    >>> first = romco.learner("ogd-unique", n_features=3, n_tasks=2)
    >>> romco.restore(first.state()).name
    'ogd-unique'
    """
    method = known(state["learner"])
    state = upgraded(method, state)
    d, m = whole("n_features", state["n_features"]), whole("n_tasks", state["n_tasks"])
    kind, arrays = method.kind, state["arrays"]
    if kind is not None:
        _check_sizes(kind.shapes, arrays, {"d": (d,), "m": (m,), "k": (1, m)})
    made = method(d, m, **state["parameters"])
    _check_sizes(made.shapes, arrays, {"k": (1 if made.one_for_all else m,)})
    made.load(arrays)
    return made


def upgraded(method: Method, state: State) -> State:
    """The state as this version of its learner would have given it."""
    version = whole("version", state.get("version", 1))
    kind = method.kind
    if kind is None:
        return state
    if version > kind.version:
        raise ValueError(
            f"the state of {method.name} has version {version}, this library knows {kind.version} "
            "and older: update romco"
        )
    for old in range(version, kind.version):
        if old not in kind.upgrades:
            raise ValueError(
                f"the state of {method.name} has version {old}, which this library no longer "
                f"reads; it has version {kind.version}: learn it again, or use an older romco"
            )
        state = {**kind.upgrades[old](state), "version": old + 1}
    return with_inner_upgraded(state) if "inner_version" in state else state


def with_inner_upgraded(state: State) -> State:
    """The same, the arrays "0.x", "1.x", ... of each inner learner as its present version has them.

    The inner learner is that of the parameters ``inner`` and ``parameters``.
    """
    outer = state["parameters"]
    method, version = known(outer["inner"]), whole("inner_version", state["inner_version"])
    if method.kind is None or version == method.kind.version:
        return state
    arrays, members = split_members(state["arrays"])
    settings = {"version": version, "parameters": dict(outer["parameters"] or {})}
    sizes = {size: state[size] for size in ("n_features", "n_tasks")}
    first = members.get("0", {})
    for number, own in members.items():  # what one does not have is the first one's, for all
        inner = upgraded(method, {**settings, **sizes, "arrays": {**first, **own}})
        arrays |= {
            f"{number}.{name}": array
            for name, array in inner["arrays"].items()
            if name in own or name not in first
        }
        outer = {**outer, "parameters": inner["parameters"]}
    return {**state, "inner_version": method.kind.version, "parameters": outer, "arrays": arrays}


def split_members(arrays: Arrays) -> tuple[Arrays, dict[str, Arrays]]:
    """Return the arrays of the learner itself, and those of each inner learner, "0.x", "1.x"."""
    own: Arrays = {}
    members: dict[str, Arrays] = {}
    for name, array in arrays.items():
        number, dot, rest = name.partition(".")
        if dot:
            members.setdefault(number, {})[rest] = array
        else:
            own[name] = array
    return own, members


def _check_sizes(
    shapes: Mapping[str, str], arrays: Arrays, sizes: Mapping[str, tuple[int, ...]]
) -> None:
    for name in shapes.keys() & arrays.keys():
        found = arrays[name].shape
        if not any(_fits(found, form, sizes) for form in shapes[name].split("|")):
            declared = ", ".join(f"{letter}={lengths[-1]}" for letter, lengths in sizes.items())
            raise ValueError(
                f"state array {name!r} is {list(found)}, expected {shapes[name]!r} with {declared}"
            )


def _fits(found: tuple[int, ...], form: str, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    return len(found) == len(form) and all(
        length in sizes.get(letter, (length,)) for length, letter in zip(found, form, strict=True)
    )


def forget(old: Learner, task: int) -> None:
    """Make a task as if it had never been; what other tasks learned from it stays.

    By the learner's own way if it has one, else by setting the task's entries of every array
    (see ``shapes``) to what a new learner has there.
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
    """Take back the start of a task that has had no event yet: there is none to be forgotten."""
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
