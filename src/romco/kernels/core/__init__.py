"""The contract, events and memory that kernels share."""
