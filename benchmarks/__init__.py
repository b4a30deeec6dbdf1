"""How fast, how large, how steady: frozen, seeded workloads. Run with ``python -m benchmarks``."""
