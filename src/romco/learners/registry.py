"""All learners by name, and how to make one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from romco.learners.base import Learner
from romco.learners.methods import Method, Methods

# What the paper's learners do not leave open.
NUCLEAR = {"shared": "nuclear", "personal": "task-groups", "rho": "constant"}
LOGDET = {"shared": "logdet", "personal": "task-groups"}

GIVEN = {
    "romco-nucl": Method("romco:Romco", "ROMCO-NuCl", role="paper", fixed=NUCLEAR),
    "romco-logd": Method("romco:Romco", "ROMCO-LogD", role="paper", fixed=LOGDET),
    "romco": Method("romco:Romco", "ROMCO", role="beyond", defaults={"shrinkage": "share"}),
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
LEARNERS = Methods(GIVEN)

# What learns other answers than -1 and +1: apart, since tables and checks go through the above.
OTHER_TARGETS = {
    name: replace(method, name=name)
    for name, method in {
        "classes": Method("classes:Classes", "Many classes", role="beyond"),
        "romco-auto-number": Method("auto_number:AutoNumber", "ROMCO-Auto", role="beyond"),
        **{
            f"romco-{short}-number": Method(
                "decomposed_numbers:DecomposedNumbers", title, fixed={"shared": shared}
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
    """Make a learner by name; ``romco.LEARNERS`` lists the names.

    Parameters
    ----------
    name:
        Of a learner.
    n_features, n_tasks:
        How many of each there is room for.
    parameters:
        Of the learner, by name; docs/methods.md tells them.

    Returns
    -------
    :
        A learner that has learned nothing.

    Raises
    ------
    ValueError
        Where the name is unknown, or a parameter is, or has no such value.

    >>> import romco
    >>> romco.learner("ogd-unique", n_features=3, n_tasks=2, eta=0.5).weights().shape
    (3, 2)

    """
    return known(name)(n_features, n_tasks, **parameters)


def grown(old: Learner, n_features: int, n_tasks: int) -> Learner:
    """The same learner with room for more features or tasks.

    Parameters
    ----------
    old:
        A learner; it stays as it is.
    n_features, n_tasks:
        How many of each there is to be room for.

    Returns
    -------
    :
        Another learner that has learned the same.

    Raises
    ------
    ValueError
        Where there would be less room than before.

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
