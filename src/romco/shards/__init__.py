"""Learning in shards: on threads of one machine, or on Ray."""

from romco.shards.shards import Shards

__all__ = ["Shards"]
