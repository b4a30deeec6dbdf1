"""Demonstrations: a server that is killed, shards that lose a worker."""
