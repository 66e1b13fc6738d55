"""The table of goals: ``python -m benchmarks [question …]``."""

from __future__ import annotations

import importlib
import os
import platform
import sys

# Threads that spin while they wait would eat the time of the next contender.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# NumPy's matrix products take all processors unless told otherwise.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

QUESTIONS = ("forward", "backward", "half", "additive", "statistics", "torch")
# Asked by name alone: they need transformers or torch, and minutes.
BY_NAME = ("record", "scale")


def main() -> None:
    from benchmarks import contest, peers

    asked = sys.argv[1:] or QUESTIONS
    known = (*QUESTIONS, *BY_NAME)
    unknown = [name for name in asked if name not in known]
    if unknown:
        sys.exit(f"no question {unknown[0]!r}; there are {', '.join(known)}")
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    if peers.missing():
        print(f"not installed and left out: {', '.join(peers.missing())}")
    for name in asked:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n## {module.__doc__}\n")
        print(module.table() if name in BY_NAME else contest.table(module.rows()), flush=True)


if __name__ == "__main__":
    main()
