"""Slow twins: the formulas transcribed plainly, to hold compiled code against."""
