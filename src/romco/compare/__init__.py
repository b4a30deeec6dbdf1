"""Which runs, their results on disk, tuning and comparing."""
