"""Streams of events, simulated or from arrays, and their orders."""

from romco.streams.orders import ORDERS, interleaved, recorded, synchronous
from romco.streams.simulated import preset, simulated
from romco.streams.stream import Stream, Truth

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
