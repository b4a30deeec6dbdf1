"""Explanation of a chooser: what it expects of each action, and for whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from itertools import starmap
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from romco.kernels.choosing import ChooserKernel, Person
from romco.model.names import Id
from romco.presentation.screen import quantity


@dataclass(frozen=True)
class ActionInsight:
    """Score of one action and what its features add.

    Scores are log-odds of a reward for "yes/no", and in the unit of the rewards for "number".
    """

    action: Id
    score: float  # in the mean context, for somebody new, without features of the action
    deviation: float  # standard deviation of it: how much is not known
    features: dict[str, float]  # change of the score per standard deviation, the largest first


@dataclass(frozen=True)
class PersonalLevel:
    """Difference of a person's score of one action from that of others."""

    task: Id
    action: Id
    level: float
    deviation: float


@dataclass(frozen=True)
class ChooserExplanation:
    """Actions of a chooser, the best first, and the largest levels of people."""

    kind: str
    rewards: int
    n_tasks: int
    n_features: int
    actions: tuple[ActionInsight, ...]
    levels: tuple[PersonalLevel, ...]
    shared: dict[str, float]  # weights of features of actions, and of their products with others

    def __str__(self) -> str:
        unit, digits = "log-odds", ".2f"
        if self.kind == "number":
            unit, digits = "reward", ".4g"  # of any size
        weight = partial(_weight, digits)
        counts = (
            quantity(self.rewards, "reward"),
            quantity(self.n_tasks, "person", "people"),
            quantity(self.n_features, "feature"),
        )
        lines = [f"{', '.join(counts)}; {unit} of each action in the mean context:"]
        for action in self.actions:
            text = f"  {action.action}: {action.score:{digits}} ± {action.deviation:{digits}}"
            lines.append("; ".join([text, *starmap(weight, action.features.items())]))
        if self.shared:
            parts = "; ".join(starmap(weight, self.shared.items()))
            lines.append(f"shared by all actions: {parts}")
        if self.levels:
            lines.append("people who differ most:")
        for person in self.levels:
            lines.append(f"  {person.task}: {person.action} {person.level:+{digits}}")
        return "\n".join(lines)


def _weight(digits: str, name: str, weight: float) -> str:
    return f"{name} {weight:+{digits}}"


def explain_chooser(
    kernel: ChooserKernel, people: Mapping[Id, Person], top: int
) -> ChooserExplanation:
    """Explain what a kernel has learned, with the ``top`` largest parts of each list."""
    actions = [_action(kernel, number, top) for number in range(len(kernel.names))]
    actions.sort(key=lambda one: -one.score)
    names = ["1", *kernel.features.number]
    others = ["1", *kernel.context.number]
    pairs = kernel.pairs[: kernel.shared.width]
    labels = [_product(names, others, z, x) for z, x in pairs]
    return ChooserExplanation(
        "number" if kernel.numeric else "yes/no",
        kernel.rewards,
        len(people),
        kernel.context.width - 1,
        tuple(actions[:top]),
        tuple(_levels(kernel, people, top)),
        largest(labels, kernel.shared.mean, top),
    )


def own_weights(kernel: ChooserKernel, number: int) -> NDArray[np.float64]:
    """Return the means of an action's own weights, none where it had no reward."""
    own = kernel.own[number] if number < len(kernel.own) else None
    if own is None:
        return np.zeros(0)
    weights: NDArray[np.float64] = own.mean - own.slopes @ kernel.shared.mean[: own.pairs]
    return weights


def _action(kernel: ChooserKernel, number: int, top: int) -> ActionInsight:
    own = kernel.own[number]
    if own is None:
        deviation = kernel.deviation * sqrt(kernel.own_level)
        return ActionInsight(kernel.names[number], kernel.centre, deviation, {})
    known = list(kernel.context.number)[: own.width - 1]
    slopes = own.slopes[0]
    shared = slopes @ kernel.shared.covariance[: own.pairs, : own.pairs] @ slopes
    deviation = kernel.deviation * sqrt(own.covariance[0, 0] + shared)
    weights = own_weights(kernel, number)
    features = largest(known, weights[1:], top)
    score = kernel.centre + float(weights[0])
    return ActionInsight(kernel.names[number], score, deviation, features)


def _levels(kernel: ChooserKernel, people: Mapping[Id, Person], top: int) -> list[PersonalLevel]:
    found = []
    for task, person in people.items():
        for number, (information, precision) in person.levels.items():
            variance = 1.0 / (1.0 / kernel.levels + precision)
            deviation = kernel.deviation * sqrt(variance)
            level = information * variance
            found.append(PersonalLevel(task, kernel.names[number], level, deviation))
    return nlargest(top, found, key=lambda one: abs(one.level))


def _product(names: list[str], others: list[str], z: int, x: int) -> str:
    """Return the name of a column of z ⊗ x; columns shared by hash have none of their own."""
    first = names[z] if z < len(names) else f"features #{z}"
    second = others[x] if x < len(others) else f"features #{x}"
    if z and x:
        return f"{first} * {second}"
    return first if z else second


def largest(names: list[str], weights: NDArray[np.float64], top: int) -> dict[str, float]:
    """Return the ``top`` largest weights that are not 0, by name; shared columns have none."""
    order = np.argsort(-np.abs(weights[: len(names)]), kind="stable")[:top]
    return {names[k]: float(weights[k]) for k in order.tolist() if weights[k] != 0.0}
