"""Files: reading tables, and keeping models."""
