"""Learning in shards: on threads of one machine, or on Ray."""
