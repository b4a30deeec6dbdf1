"""From margins to probabilities, learned along the stream."""

from romco.kernels.history import Scale

__all__ = ["Scale"]
