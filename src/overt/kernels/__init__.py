"""The only importers of the compiled module: can it, run it.

Every function takes a ``Problem`` of NumPy arrays and returns the same as its namesake in ``reference``; short calls
take arrays, or tensors, as they are.
"""

from overt.kernels.passes import (
    Statistics,
    attend,
    can,
    forward,
    forward_in_full,
    gradient,
    levels,
    picked,
    pooled,
    statistics,
    top,
    weights,
)
from overt.kernels.pieces import converted
from overt.kernels.short import plain, plain_forward, plain_gradient, plain_picked
from overt.kernels.threads import get_num_threads, set_num_threads

__all__ = [
    "Statistics",
    "attend",
    "can",
    "converted",
    "forward",
    "forward_in_full",
    "get_num_threads",
    "gradient",
    "levels",
    "picked",
    "plain",
    "plain_forward",
    "plain_gradient",
    "plain_picked",
    "pooled",
    "set_num_threads",
    "statistics",
    "top",
    "weights",
]
