"""Estimators for other libraries."""
