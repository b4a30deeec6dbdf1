"""Learners by name, and how to make one."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from romco.learners.base import Learner

GROUP = "romco.learners"  # entry points by which other packages bring learners


@dataclass(frozen=True)
class Method:
    """A learner as tables and tuning see it; calling it makes one.

    Parameters
    ----------
    source:
        The learner's class, or where it is, "module:Class" below this package:
        the module is then imported when the method is first used, and not by ``import romco``.
    title:
        As the paper prints it.
    role:
        "paper", "control" or "beyond": in which tables it stands.
    fixed:
        Arguments that this name binds; they are not parameters to a user.
    defaults:
        Those of this name where they are not the class's.
    name:
        Set by ``romco.LEARNERS``.

    >>> import romco
    >>> romco.LEARNERS["ogd-unique"].title
    'OGD-Unique'
    """

    source: Callable[..., Learner] | str
    title: str  # as the paper prints it
    role: Literal["paper", "control", "beyond"] = "control"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    name: str = "unnamed"

    def __call__(self, n_features: int, n_tasks: int, **parameters: Any) -> Learner:
        """A new learner of this kind, under this name."""
        complete = self.complete(parameters)
        given = {**self.fixed, **self.defaults, **parameters}
        learner = self.make(n_features, n_tasks, **given)
        learner.name, learner.parameters = self.name, complete
        return learner

    def complete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters: the given ones, defaults for the rest.

        >>> import romco
        >>> romco.LEARNERS["ogd-unique"].complete({"eta": 0.5})
        {'eta': 0.5, 'step': 'constant'}
        """
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
        found: Callable[..., Learner] = vars(import_module(f"romco.learners.{module}"))[name]
        return found

    @property
    def kind(self) -> type[Learner] | None:
        """The learner's class, None where a function makes it."""
        made = self.make
        return made if isinstance(made, type) and issubclass(made, Learner) else None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter names and their defaults."""
        return {
            name: self.defaults.get(name, parameter.default)
            for name, parameter in inspect.signature(self.make).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and name not in self.fixed
        }

    @property
    def space(self) -> Mapping[str, Sequence[Any]]:
        """Grid that tuning searches, by parameter."""
        kind = self.kind
        return {} if kind is None else kind.space

    @property
    def keeps_events(self) -> bool:
        """True if memory grows with the stream because past events are refitted."""
        kind = self.kind
        return kind is not None and kind.keeps_events

    @property
    def summary(self) -> str:
        """First line of the learner's description."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]


class Methods(MutableMapping[str, Method]):
    """Methods by name: those given, those that were added, and those of other packages.

    A method is bound to the name under which it is put here. Packages that announce learners
    as entry points of the group ``romco.learners`` are asked when a name is not found otherwise,
    or when all are listed.

    >>> from romco.learners.linear import Gradient
    >>> methods = Methods({})
    >>> methods["mine"] = Method(Gradient, "Mine", fixed={"models": "unique"})
    >>> methods["mine"](n_features=3, n_tasks=2).name
    'mine'
    """

    def __init__(self, given: Mapping[str, Method]) -> None:
        self._given = {name: replace(method, name=name) for name, method in given.items()}
        self._added: dict[str, Method] = {}
        self._brought: dict[str, Method] | None = None  # by other packages; None: not asked yet
        self._gone: set[str] = set()

    def __getitem__(self, name: str) -> Method:
        if name in self._gone:
            raise KeyError(name)
        for methods in (self._added, self._given):
            if name in methods:
                return methods[name]
        return self._announced()[name]

    def __setitem__(self, name: str, method: Method | Callable[..., Learner]) -> None:
        if not isinstance(method, Method):  # a learner's class alone
            method = Method(method, name)
        self._added[name] = replace(method, name=name)
        self._gone.discard(name)

    def __delitem__(self, name: str) -> None:
        self[name]  # a KeyError where there is none
        self._added.pop(name, None)
        if name in self._given or name in self._announced():
            self._gone.add(name)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self._given, *self._announced(), *self._added])
        return iter([name for name in names if name not in self._gone])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def added(self) -> dict[str, Method]:
        """Those that this process added: another process does not know them by itself."""
        return dict(self._added)

    def _announced(self) -> dict[str, Method]:
        if self._brought is None:
            self._brought = {}  # first, so that a package may look here while it is imported
            for entry in entry_points(group=GROUP):
                if entry.name not in self._given:
                    self._brought |= _brought_by(entry)
        return self._brought


def _brought_by(entry: EntryPoint) -> dict[str, Method]:
    """The method that an entry point names; nothing but a warning where it cannot be had."""
    try:
        found = entry.load()
        method = found if isinstance(found, Method) else Method(found, entry.name)
        return {entry.name: replace(method, name=entry.name)}
    except Exception as error:  # noqa: BLE001: whatever another package does, the rest works
        warnings.warn(f"learner {entry.name!r} ({entry.value}) is left out: {error}", stacklevel=2)
        return {}


# What the paper's learners do not leave open.
NUCLEAR = {"shared": "nuclear", "personal": "task-groups", "rho": "constant"}
LOGDET = {"shared": "logdet", "personal": "task-groups"}

GIVEN = {
    "romco-nucl": Method("romco:Romco", "ROMCO-NuCl", role="paper", fixed=NUCLEAR),
    "romco-logd": Method("romco:Romco", "ROMCO-LogD", role="paper", fixed=LOGDET),
    "romco": Method("romco:Romco", "ROMCO", role="beyond", defaults={"shrinkage": "share"}),
    "ogd-unique": Method("linear:Gradient", "OGD-Unique", fixed={"models": "unique"}),
    "ogd-global": Method("linear:Gradient", "OGD-Global", fixed={"models": "global"}),
    "romco-auto": Method("auto:Auto", "ROMCO-Auto", role="beyond"),
    "pa-shared": Method("shared:PassiveAggressiveShared", "PA-Shared", role="beyond"),
    "arow-shared": Method("shared:ArowShared", "AROW-Shared", role="beyond"),
    "pa-unique": Method("linear:PassiveAggressive", "PA-Unique", "paper", {"models": "unique"}),
    "pa-global": Method("linear:PassiveAggressive", "PA-Global", "paper", {"models": "global"}),
    "arow-unique": Method("linear:Arow", "AROW-Unique", fixed={"models": "unique"}),
    "arow-global": Method("linear:Arow", "AROW-Global", fixed={"models": "global"}),
    "coml": Method("linear:Collaborative", "COML"),
    "cw-col": Method("linear:ConfidenceWeighted", "CW-COL", "paper"),
    "omtl": Method("related:SharedLoss", "OMTL", "paper"),
    "osmtl-e": Method("related:Smoothed", "OSMTL-e", "paper", {"trust": "exponential"}),
    "osmtl-t": Method("related:Smoothed", "OSMTL-t", fixed={"trust": "truncated"}),
    "perceptron-coupled": Method("related:CoupledPerceptron", "Perceptron-Coupled"),
    "omtlvon": Method("related:LearnedRelation", "OMTLVON", "paper", {"divergence": "von Neumann"}),
    "omtllog": Method("related:LearnedRelation", "OMTLLOG", "paper", {"divergence": "log det"}),
    "mtfl": Method("retrained:FeatureLearning", "MTFL", "paper"),
    "trml": Method("retrained:TraceNormLearning", "TRML", "paper"),
}
LEARNERS = Methods(GIVEN)

# What learns other answers than -1 and +1: apart, since tables and checks go through the above.
OTHER_TARGETS = {
    name: replace(method, name=name)
    for name, method in {
        "classes": Method("classes:Classes", "Many classes", role="beyond"),
        "romco-auto-number": Method("numbers:AutoNumber", "ROMCO-Auto", role="beyond"),
        **{
            f"romco-{short}-number": Method(
                "numbers:DecomposedNumbers", title, fixed={"shared": shared}
            )
            for short, title, shared in (
                ("nucl", "ROMCO-NuCl", "nuclear"),
                ("logd", "ROMCO-LogD", "logdet"),
            )
        },
        **{
            f"{short}-{models}-number": Method(
                f"numbers:{kind}", f"{short.upper()}-{models.title()}", fixed={"models": models}
            )
            for short, kind in (
                ("pa", "PassiveAggressiveNumbers"),
                ("ogd", "GradientNumbers"),
                ("arow", "GaussianNumbers"),
            )
            for models in ("unique", "global")
        },
    }.items()
}


def known(name: Any) -> Method:
    """The method of a name; ValueError that lists the names where there is none.

    >>> known("ogd-unique").title
    'OGD-Unique'
    """
    if isinstance(name, str) and name in OTHER_TARGETS:
        return OTHER_TARGETS[name]
    if not isinstance(name, str) or name not in LEARNERS:
        raise ValueError(f"unknown learner {name!r}; known are {', '.join(LEARNERS)}")
    return LEARNERS[name]


def number_learner(name: str) -> str:
    """The learner that does for numbers what the one of this name does for two classes.

    >>> number_learner("romco-auto")
    'romco-auto-number'
    """
    found = name if name.endswith("-number") else f"{name}-number"
    if found not in OTHER_TARGETS:
        able = ", ".join(known.removesuffix("-number") for known in OTHER_TARGETS if "-n" in known)
        raise ValueError(f"{name} cannot predict numbers; these can: {able}")
    return found


def learner(name: str, n_features: int, n_tasks: int, **parameters: Any) -> Learner:
    """Return a new learner by name; ``romco.LEARNERS`` lists the names.

    ``docs/methods.md`` lists the parameters. Raises ValueError for an unknown name or parameter.

    >>> import romco
    >>> romco.learner("ogd-unique", n_features=3, n_tasks=2, eta=0.5).weights().shape
    (3, 2)
    """
    return known(name)(n_features, n_tasks, **parameters)


def grown(old: Learner, n_features: int, n_tasks: int) -> Learner:
    """Return a copy of a learner with room for more features or tasks.

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
    made.load(old.arrays())
    return made
