"""The paper's experiments: plans, runs, reports."""
