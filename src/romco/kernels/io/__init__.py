"""Compiled readers of rows."""
