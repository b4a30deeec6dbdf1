"""Streams of events: simulated, from arrays, or of brokers; and their orders."""

from romco.streams.simulated import preset, simulated
from romco.streams.stream import ORDERS, Stream, Truth, interleaved, recorded, synchronous

__all__ = [
    "ORDERS",
    "Stream",
    "Truth",
    "interleaved",
    "preset",
    "recorded",
    "simulated",
    "synchronous",
]
