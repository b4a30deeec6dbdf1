"""Learning in shards: on threads of one machine, or on Ray."""

from romco.cluster.shards import Shards

__all__ = ["Shards"]
