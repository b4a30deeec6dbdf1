"""The compiled half of romco-auto."""
