"""Merging what shards learned."""
