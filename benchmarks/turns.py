"""NumPy beside overt: a small attention and a matrix product in turns, and each alone (``python -m benchmarks.turns``).

Threads that spin while they wait for the next call would keep the CPUs from NumPy's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

ROUNDS, CALLS = 15, 50
WIDTHS = (64, 512)


def measure(threads: int) -> None:
    """One row per product: wall time of a call in milliseconds."""
    import numpy as np

    import overt

    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(8, 128, 64)).astype(np.float32) for _ in range(3))

    def attend() -> None:
        overt.attention(q, k, v, num_threads=threads)

    for width in WIDTHS:
        x, w = (rng.normal(size=(1024 if width == 64 else width, width)).astype(np.float32) for _ in range(2))
        w = w[:width]

        def multiply(x: np.ndarray = x, w: np.ndarray = w) -> None:
            x @ w

        def turns(multiply: Callable[[], None] = multiply) -> None:
            attend()
            multiply()

        times: dict[str, list[float]] = {"attention": [], "product": [], "in turns": []}
        for _ in range(ROUNDS):
            for name, call in (("attention", attend), ("product", multiply), ("in turns", turns)):
                call()
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                times[name].append((time.perf_counter() - start) / CALLS * 1e3)
        alone = median(times["attention"]) + median(times["product"])
        shown = " | ".join(f"{median(some):.3f}" for some in times.values())
        print(f"| {threads} | {x.shape[0]} × {width} × {width} | {shown} | {median(times['in turns']) / alone:.2f} |")


def main() -> None:
    """The table, each number of threads in a process of its own."""
    print("| threads | product | attention, ms | product, ms | in turns, ms | in turns over the sum |")
    print("|---|---|---|---|---|---|", flush=True)
    for threads in (1, 2):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
        subprocess.run([sys.executable, "-m", "benchmarks.turns", str(threads)], env=environment, check=True)


if __name__ == "__main__":
    measure(int(sys.argv[1])) if len(sys.argv) > 1 else main()
