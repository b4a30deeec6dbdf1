"""Streams of events: simulated, from arrays, or of brokers; and their orders."""

from romco.streams.simulated import simulated
from romco.streams.stream import ORDERS, Stream, Truth, interleaved, recorded, synchronous

__all__ = [
    "ORDERS",
    "Stream",
    "Truth",
    "interleaved",
    "recorded",
    "simulated",
    "synchronous",
]
