"""Offline solvers: what the data would have said all at once."""

from romco.batch.features import FeatureRelation, feature_learning
from romco.batch.lowrank import trace_norm
from romco.batch.outliers import robust

__all__ = ["FeatureRelation", "feature_learning", "robust", "trace_norm"]
