"""Offline solvers: baselines retrain with them, regret compares with them."""

from romco.batch.methods import FeatureRelation, feature_learning, robust, trace_norm

__all__ = ["FeatureRelation", "feature_learning", "robust", "trace_norm"]
