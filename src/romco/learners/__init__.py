"""ROMCO, the methods it is compared with, and the controls, under one contract."""

from romco.learners.base import Learner
from romco.learners.registry import LEARNERS, Method, grown, known, learner, number_learner, restore

__all__ = [
    "LEARNERS",
    "Learner",
    "Method",
    "grown",
    "known",
    "learner",
    "number_learner",
    "restore",
]
