"""Overt beside its peers: one question a module, ``python -m benchmarks`` for the table of goals."""
