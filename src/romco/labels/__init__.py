"""Label policies: which events to ask a label for, under a budget, and the audit of all answers.

A *policy* takes each round and its margins, after they were predicted and before any label is
known, and chooses the events whose labels to ask for. It never asks for more than its budget.
"""

from romco.labels.audit import Audit, Estimate
from romco.labels.policies import (
    POLICIES,
    Budget,
    Policy,
    Random,
    policy,
    restore,
)

__all__ = [
    "POLICIES",
    "Audit",
    "Budget",
    "Estimate",
    "Policy",
    "Random",
    "policy",
    "restore",
]
