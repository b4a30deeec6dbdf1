"""Sparse stores that kernels share."""
