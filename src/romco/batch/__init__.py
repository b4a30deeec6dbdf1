"""Offline solvers: baselines retrain with them, regret compares with them."""

from romco.batch.features import FeatureRelation, feature_learning
from romco.batch.lowrank import trace_norm
from romco.batch.outliers import robust

__all__ = ["FeatureRelation", "feature_learning", "robust", "trace_norm"]
