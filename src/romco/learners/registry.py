"""All learners by name, and how to make one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from romco.learners.base import Learner, State


@dataclass(frozen=True)
class Method:
    """A learner as tables and tuning see it; calling it makes one.

    ``source`` is the learner's class, or where it is, "module:Class" below this package:
    the module is then imported when the method is first used, and not by ``import romco``.
    ``fixed`` are arguments that this name binds; they are not parameters to a user.
    """

    source: Callable[..., Learner] | str
    title: str  # as the paper prints it
    role: Literal["paper", "control", "beyond"] = "control"
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, n_features: int, n_tasks: int, **parameters: Any) -> Learner:
        """A new learner of this kind."""
        known = self.parameters
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"{self.title} has no parameter {name!r}; it has {', '.join(known) or 'none'}"
                )
        missing = [
            name
            for name, default in known.items()
            if default is inspect.Parameter.empty and name not in parameters
        ]
        if missing:
            raise ValueError(f"{self.title} needs {', '.join(missing)}")
        learner = self.make(n_features, n_tasks, **self.fixed, **parameters)
        learner.parameters = {**known, **parameters}
        return learner

    @property
    def make(self) -> Callable[..., Learner]:
        """The learner's class."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        found: Callable[..., Learner] = getattr(import_module(f"romco.learners.{module}"), name)
        return found

    @property
    def _kind(self) -> type[Learner] | None:
        """The learner's class, None where a function makes it."""
        made = self.make
        return made if isinstance(made, type) and issubclass(made, Learner) else None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter names and their defaults."""
        return {
            name: parameter.default
            for name, parameter in inspect.signature(self.make).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and name not in self.fixed
        }

    @property
    def space(self) -> Mapping[str, Sequence[Any]]:
        """What tuning may try, by parameter."""
        kind = self._kind
        return {} if kind is None else kind.space

    @property
    def keeps_events(self) -> bool:
        """Whether memory grows with the stream, because all of it is fitted again and again."""
        kind = self._kind
        return kind is not None and kind.keeps_events

    @property
    def summary(self) -> str:
        """First line of the learner's description."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]


LEARNERS: dict[str, Method] = {
    "romco-nucl": Method(
        "romco:Romco", "ROMCO-NuCl", role="paper", fixed={"shared": "nuclear", "rho": "constant"}
    ),
    "romco-logd": Method("romco:Romco", "ROMCO-LogD", role="paper", fixed={"shared": "logdet"}),
    "ogd-unique": Method("gradient:Gradient", "OGD-Unique", fixed={"models": "unique"}),
    "ogd-global": Method("gradient:Gradient", "OGD-Global", fixed={"models": "global"}),
    "romco-auto": Method("auto:Auto", "ROMCO-Auto", role="beyond"),
    "pa-shared": Method("shared:PassiveAggressiveShared", "PA-Shared", role="beyond"),
    "arow-shared": Method("shared:ArowShared", "AROW-Shared", role="beyond"),
    "pa-unique": Method(
        "passive_aggressive:PassiveAggressive", "PA-Unique", "paper", {"models": "unique"}
    ),
    "pa-global": Method(
        "passive_aggressive:PassiveAggressive", "PA-Global", "paper", {"models": "global"}
    ),
    "arow-unique": Method("confidence:Arow", "AROW-Unique", fixed={"models": "unique"}),
    "arow-global": Method("confidence:Arow", "AROW-Global", fixed={"models": "global"}),
    "coml": Method("passive_aggressive:Collaborative", "COML"),
    "cw-col": Method("confidence:ConfidenceWeighted", "CW-COL", "paper"),
    "omtl": Method("shared_loss:SharedLoss", "OMTL", "paper"),
    "osmtl-e": Method("smoothed:Smoothed", "OSMTL-e", "paper", {"trust": "exponential"}),
    "osmtl-t": Method("smoothed:Smoothed", "OSMTL-t", fixed={"trust": "truncated"}),
    "perceptron-coupled": Method("coupled:CoupledPerceptron", "Perceptron-Coupled"),
    "omtlvon": Method("coupled:LearnedRelation", "OMTLVON", "paper", {"divergence": "von Neumann"}),
    "omtllog": Method("coupled:LearnedRelation", "OMTLLOG", "paper", {"divergence": "log det"}),
    "mtfl": Method("retrained:FeatureLearning", "MTFL", "paper"),
    "trml": Method("retrained:TraceNormLearning", "TRML", "paper"),
}


# What learns other answers than -1 and +1: apart, since tables and checks go through the above.
OTHER_TARGETS: dict[str, Method] = {
    "classes": Method("classes:Classes", "Many classes", role="beyond"),
}


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
    """Make a learner by name; ``romco.LEARNERS`` lists the names.

    >>> import romco
    >>> romco.learner("ogd-unique", n_features=3, n_tasks=2, eta=0.5).weights().shape
    (3, 2)
    """
    method = LEARNERS.get(name) or OTHER_TARGETS.get(name)
    if method is None:
        raise ValueError(f"unknown learner {name!r}; known are {', '.join(LEARNERS)}")
    made = method(n_features, n_tasks, **parameters)
    made.name = name
    return made


def restore(state: State) -> Learner:
    """The learner that gave ``state``, going on as if it had never stopped.

    >>> import romco
    >>> first = romco.learner("ogd-unique", n_features=3, n_tasks=2)
    >>> romco.restore(first.state()).name
    'ogd-unique'
    """
    made = learner(state["learner"], state["n_features"], state["n_tasks"], **state["parameters"])
    made.load(state["arrays"])
    return made


def grown(old: Learner, n_features: int, n_tasks: int) -> Learner:
    """The same learner with room for more features or tasks."""
    if n_features < old.n_features or n_tasks < old.n_tasks:
        raise ValueError(
            f"cannot shrink from {old.n_features} features and {old.n_tasks} tasks "
            f"to {n_features} and {n_tasks}"
        )
    made = learner(old.name, n_features, n_tasks, **old.parameters)
    made.load(old.arrays())
    return made
