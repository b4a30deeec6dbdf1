"""The version, in one place that every room may import."""

__version__ = "0.1.0"
