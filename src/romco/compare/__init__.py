"""Comparison of ROMCO-Auto with baselines: runs, results, verdict, report."""
