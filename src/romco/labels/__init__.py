"""Labels that cost: which events to ask for, under a budget, and what the asked ones tell.

A *policy* sees each round and its margins, after they were predicted and before any label is
known, and says whose labels to ask for. It never asks for more than its budget allows.
"""

from romco.labels.audits import Audit, Estimate
from romco.labels.budgets import Budget
from romco.labels.committees import Committee
from romco.labels.consulting import Consulting
from romco.labels.margins import FixedMargin
from romco.labels.peers import Peers
from romco.labels.policies import Policy
from romco.labels.randoms import Random
from romco.labels.registry import POLICIES, policy, restore
from romco.labels.selective import SelectiveSampling
from romco.labels.thresholds import VariableUncertainty

__all__ = [
    "POLICIES",
    "Audit",
    "Budget",
    "Committee",
    "Consulting",
    "Estimate",
    "FixedMargin",
    "Peers",
    "Policy",
    "Random",
    "SelectiveSampling",
    "VariableUncertainty",
    "policy",
    "restore",
]
