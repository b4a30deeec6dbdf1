"""Learners by name: make, restore and grow one, and forget a task."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from romco.learners.base import Arrays, Axes, CompiledLearner, Learner, State
from romco.learners.capabilities import ForgetsTasks
from romco.parameters import whole

GROUP = "romco.learners"  # entry points by which other packages bring learners


@dataclass(frozen=True)
class Method:
    """A learner as tables and tuning see it; calling it makes one.

    >>> import romco
    >>> romco.LEARNERS["ogd-unique"].title
    'OGD-Unique'
    """

    source: Callable[..., Learner] | str  # a class, or "module:Class", imported at the first use
    title: str  # as the paper prints it
    role: Literal["paper", "control", "beyond"] = "control"  # in which tables it stands
    fixed: Mapping[str, Any] = field(default_factory=dict)  # arguments that this name binds
    defaults: Mapping[str, Any] = field(default_factory=dict)  # where they are not the class's
    target: Literal["two classes", "classes", "number"] = "two classes"
    name: str = "unnamed"  # set by ``romco.LEARNERS``

    def __call__(self, n_features: int, n_tasks: int, **parameters: Any) -> Learner:
        """A new learner of this kind, under this name."""
        complete = self.complete(parameters)
        learner = self.make(n_features, n_tasks, **self.fixed, **complete)
        learner.name, learner.parameters = self.name, complete
        return learner

    def complete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters: the given ones, defaults for the rest."""
        known = self.parameters
        for name in parameters:
            if name not in known:
                has = ", ".join(known) or "none"
                raise ValueError(f"{self.name} has no parameter {name!r}; it has {has}")
        whole = {**known, **parameters}
        missing = [name for name, value in whole.items() if value is inspect.Parameter.empty]
        if missing:
            raise ValueError(f"{self.name} needs {', '.join(missing)}")
        return whole

    @property
    def make(self) -> Callable[..., Learner]:
        """The learner's class."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        factory: Callable[..., Learner] = vars(import_module(f"romco.learners.{module}"))[name]
        return factory

    @property
    def kind(self) -> type[Learner] | None:
        """The learner's class, None where a function makes it."""
        made = self.make
        if isinstance(made, type) and issubclass(made, Learner):
            return made
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter names and their defaults."""
        return {
            name: self.defaults.get(name, default)
            for name, default in keyword_defaults(self.make).items()
            if name not in self.fixed
        }

    @property
    def space(self) -> Mapping[str, Sequence[Any]]:
        """Grid that tuning searches, by parameter."""
        if self.kind is None:
            return {}
        return self.kind.space

    @property
    def keeps_events(self) -> bool:
        """True if memory grows with the stream because past events are refitted."""
        return self.kind is not None and self.kind.keeps_events

    @property
    def summary(self) -> str:
        """First line of the learner's description."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]


@cache
def keyword_defaults(make: Callable[..., Learner]) -> dict[str, Any]:
    """Return the keyword-only parameters of a function or class, and their defaults."""
    parameters = inspect.signature(make).parameters.items()
    return {name: one.default for name, one in parameters if one.kind is one.KEYWORD_ONLY}


class Methods(MutableMapping[str, Method]):
    """Methods by name: those given, those that were added, and entry points of other packages.

    Listed are those for two classes; the others are found by name.

    >>> from romco.learners.linear import Gradient
    >>> methods = Methods({})
    >>> methods["mine"] = Method(Gradient, "Mine", fixed={"models": "unique"})
    >>> methods["mine"](n_features=3, n_tasks=2).name
    'mine'
    """

    def __init__(self, given: Mapping[str, Method]) -> None:
        self._methods = {name: replace(method, name=name) for name, method in given.items()}
        self._given = frozenset(given)
        self._added = set[str]()
        self._complete = False  # entry points were read

    def __getitem__(self, name: str) -> Method:
        if name not in self._methods:
            self._read_entry_points()
        return self._methods[name]

    def __setitem__(self, name: str, method: Method | Callable[..., Learner]) -> None:
        self._methods[name] = _named(name, method)
        self._added.add(name)

    def __delitem__(self, name: str) -> None:
        self._read_entry_points()  # so that none brings it back
        del self._methods[name]
        self._added.discard(name)

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter([key for key, one in self._methods.items() if one.target == "two classes"])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def added(self) -> dict[str, Method]:
        """Those that this process added: another process does not know them by itself."""
        return {name: self._methods[name] for name in self._added}

    def _read_entry_points(self) -> None:
        if self._complete:
            return
        self._complete = True  # first, so that a package may look here while it is imported
        for entry in entry_points(group=GROUP):
            if entry.name not in self._given | self._added:
                try:
                    self._methods[entry.name] = _named(entry.name, entry.load())
                except Exception as error:  # whatever a package does, the rest works
                    warnings.warn(
                        f"learner {entry.name!r} ({entry.value}) is left out: {error}", stacklevel=2
                    )


def _named(name: str, method: Method | Callable[..., Learner]) -> Method:
    """Return the method, or that of a learner's class alone, under a name."""
    if not isinstance(method, Method):
        method = Method(method, name)
    return replace(method, name=name)


# What the paper's learners do not leave open.
NUCLEAR = {"shared": "nuclear", "rho": "constant"}
LOGDET = {"shared": "logdet"}
UNIQUE = {"models": "unique"}
GLOBAL = {"models": "global"}


def _of_numbers(kind: str, title: str, **fixed: Any) -> Method:
    return Method(f"numbers:{kind}", title, fixed=fixed, target="number")


GIVEN = {
    "romco-nucl": Method("romco:Romco", "ROMCO-NuCl", role="paper", fixed=NUCLEAR),
    "romco-logd": Method("romco:Romco", "ROMCO-LogD", role="paper", fixed=LOGDET),
    "romco": Method("romco:Romco", "ROMCO", role="beyond", defaults={"shrinkage": "share"}),
    "ogd-unique": Method("linear:Gradient", "OGD-Unique", fixed=UNIQUE),
    "ogd-global": Method("linear:Gradient", "OGD-Global", fixed=GLOBAL),
    "romco-auto": Method("auto:Auto", "ROMCO-Auto", role="beyond"),
    "pa-shared": Method("shared:PassiveAggressiveShared", "PA-Shared", role="beyond"),
    "arow-shared": Method("shared:ArowShared", "AROW-Shared", role="beyond"),
    "pa-unique": Method("linear:PassiveAggressive", "PA-Unique", "paper", UNIQUE),
    "pa-global": Method("linear:PassiveAggressive", "PA-Global", "paper", GLOBAL),
    "arow-unique": Method("linear:Arow", "AROW-Unique", fixed=UNIQUE),
    "arow-global": Method("linear:Arow", "AROW-Global", fixed=GLOBAL),
    "coml": Method("linear:Collaborative", "COML"),
    "cw-col": Method("linear:ConfidenceWeighted", "CW-COL", "paper"),
    "omtl": Method("linear:SharedLoss", "OMTL", "paper"),
    "osmtl-e": Method("linear:Smoothed", "OSMTL-e", "paper", {"trust": "exponential"}),
    "osmtl-t": Method("linear:Smoothed", "OSMTL-t", fixed={"trust": "truncated"}),
    "perceptron-coupled": Method("linear:CoupledPerceptron", "Perceptron-Coupled"),
    "omtlvon": Method("linear:LearnedRelation", "OMTLVON", "paper", {"divergence": "von Neumann"}),
    "omtllog": Method("linear:LearnedRelation", "OMTLLOG", "paper", {"divergence": "log det"}),
    "mtfl": Method("retrained:FeatureLearning", "MTFL", "paper"),
    "trml": Method("retrained:TraceNormLearning", "TRML", "paper"),
    "classes": Method("classes:Classes", "Many classes", role="beyond", target="classes"),
    "romco-auto-number": _of_numbers("AutoNumber", "ROMCO-Auto"),
    "romco-nucl-number": _of_numbers("DecomposedNumbers", "ROMCO-NuCl", shared="nuclear"),
    "romco-logd-number": _of_numbers("DecomposedNumbers", "ROMCO-LogD", shared="logdet"),
    "pa-unique-number": _of_numbers("PassiveAggressiveNumbers", "PA-Unique", **UNIQUE),
    "pa-global-number": _of_numbers("PassiveAggressiveNumbers", "PA-Global", **GLOBAL),
    "ogd-unique-number": _of_numbers("GradientNumbers", "OGD-Unique", **UNIQUE),
    "ogd-global-number": _of_numbers("GradientNumbers", "OGD-Global", **GLOBAL),
    "arow-unique-number": _of_numbers("GaussianNumbers", "AROW-Unique", **UNIQUE),
    "arow-global-number": _of_numbers("GaussianNumbers", "AROW-Global", **GLOBAL),
}
LEARNERS = Methods(GIVEN)


def known(name: Any) -> Method:
    """Return the method of a name; ValueError that lists the names where there is none."""
    if not isinstance(name, str) or name not in LEARNERS:
        raise ValueError(f"unknown learner {name!r}; known are {', '.join(LEARNERS)}")
    return LEARNERS[name]


def number_learner(name: str) -> str:
    """Return the learner that does for numbers what the one of this name does for two classes.

    >>> number_learner("romco-auto")
    'romco-auto-number'
    """
    able = [key for key, method in GIVEN.items() if method.target == "number"]
    chosen = name if name in able else f"{name}-number"
    if chosen not in able:
        names = ", ".join(key.removesuffix("-number") for key in able)
        raise ValueError(f"{name} cannot predict numbers; these can: {names}")
    return chosen


def learner(name: str, n_features: int, n_tasks: int, **parameters: Any) -> Learner:
    """Return a new learner by name; ``romco.LEARNERS`` lists the names.

    ``docs/methods.md`` lists the parameters. Raises ValueError for an unknown name or parameter.

    >>> import romco
    >>> romco.learner("ogd-unique", n_features=3, n_tasks=2, eta=0.5).weights().shape
    (3, 2)
    """
    return known(name)(n_features, n_tasks, **parameters)


def grown(old: Learner, n_features: int, n_tasks: int, *, move: bool = False) -> Learner:
    """Return a copy of a learner with room for more features or tasks.

    With ``move`` large stores are taken over, not copied: do not use the old learner after the new
    one has learned.

    >>> import romco
    >>> old = romco.learner("ogd-unique", n_features=3, n_tasks=2)
    >>> romco.grown(old, n_features=5, n_tasks=2).weights().shape
    (5, 2)
    """
    if n_features < old.n_features or n_tasks < old.n_tasks:
        raise ValueError(
            f"cannot shrink from {old.n_features} features and {old.n_tasks} tasks "
            f"to {n_features} and {n_tasks}"
        )
    made = learner(old.name, n_features, n_tasks, **old.parameters)
    arrays: dict[str, Any] = old.arrays()
    if move and isinstance(old, CompiledLearner):
        arrays |= old.stores
    made.load(arrays)
    return made


def restore(state: State) -> Learner:
    """Return the learner of a state; it continues with the same bits.

    Raises ValueError where the learner is unknown, the version is another, or an array does not
    have the declared size; versions and sizes are checked before any allocation.

    >>> import romco
    >>> first = romco.learner("ogd-unique", n_features=3, n_tasks=2)
    >>> romco.restore(first.state()).name
    'ogd-unique'
    """
    method = known(state["learner"])
    d = whole("n_features", state["n_features"])
    m = whole("n_tasks", state["n_tasks"])
    kind, arrays = method.kind, state["arrays"]
    if kind is not None:
        _check_version(method.name, "version", state, kind.version)
        _check_sizes(kind.shapes, arrays, {"d": (d,), "m": (m,), "k": (1, m)})
    made = method(d, m, **state["parameters"])
    if made.inner_version is not None:
        _check_version(made.parameters["inner"], "inner_version", state, made.inner_version)
    models = 1 if made.one_for_all else m
    _check_sizes(made.shapes, arrays, {"k": (models,)})
    made.load(arrays)
    return made


def _check_version(name: str, key: str, state: State, expected: int) -> None:
    """Raise ValueError where a state has another version than this library writes."""
    version = whole(key, state.get(key))
    if version != expected:
        raise ValueError(
            f"the state of {name} has version {version}, this library reads version {expected}: "
            "learn it again, or use the romco that wrote it"
        )


def _check_sizes(
    shapes: Mapping[str, str], arrays: Arrays, sizes: Mapping[str, tuple[int, ...]]
) -> None:
    for name in shapes.keys() & arrays.keys():
        shape = arrays[name].shape
        if not any(_fits(shape, form, sizes) for form in shapes[name].split("|")):
            declared = ", ".join(f"{letter}={lengths[-1]}" for letter, lengths in sizes.items())
            raise ValueError(
                f"state array {name!r} is {list(shape)}, expected {shapes[name]!r} with {declared}"
            )


def _fits(shape: tuple[int, ...], form: str, sizes: Mapping[str, tuple[int, ...]]) -> bool:
    return len(shape) == len(form) and all(
        length in sizes.get(letter, (length,)) for length, letter in zip(shape, form, strict=True)
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
