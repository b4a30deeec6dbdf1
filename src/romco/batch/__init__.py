"""Offline solvers: baselines retrain with them, regret compares with them."""
