"""How many threads a call uses unless it says otherwise."""

from __future__ import annotations

from overt import _native
from overt.problem import thread_count

# 0 leaves the choice to the compiled module.
_threads = 0


def set_num_threads(count: int | None) -> None:
    """Use this many threads from now on; None goes back to the default, which honours OMP_NUM_THREADS."""
    global _threads
    _threads = 0 if count is None else thread_count(count)


def get_num_threads() -> int:
    """Threads that a call uses unless it says otherwise."""
    return _threads or _native.threads()


def default() -> int:
    """What the compiled module is told: 0 leaves the choice to it."""
    return _threads
