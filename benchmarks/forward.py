"""How fast is the output?  float32, one thread unless said, against every peer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete
from overt import reference
from overt.problem import Problem


def inputs(B: int, H: int, G: int, T: int, S: int, D: int) -> list[np.ndarray]:
    """Normal q, k and v."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(B, h, n, D)).astype(np.float32) for h, n in ((H, T), (G, S), (G, S))]


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, **options: object) -> np.ndarray:
    """The definition in float64, head by head."""
    wide = [x.astype(np.float64) for x in (q, k, v)]
    return (
        overt.attention(*wide, **options)
        if q.shape[2] > 512
        else reference.forward(Problem.of(*wide, score=overt.scaled_dot(), **options))[0]
    )


def row(
    name: str,
    sizes: tuple[int, int, int, int, int, int],
    mask: overt.masks.Mask | None = None,
    *,
    dense: bool = False,
    rule: Callable[..., object] | None = None,
    threads: int = 1,
    floor: float,
    goal: float,
) -> Row:
    """One case; peers get the mask as their causal flag, or dense."""
    q, k, v = inputs(*sizes)
    B, _, _, T, S, _ = sizes
    causal = repr(mask) == "causal()"
    bits = None
    if mask is not None and not causal:
        bits = np.array(np.broadcast_to(mask.dense(T, S, (B,)), (B, 1, T, S)), order="C")
    ours = bits if dense else mask
    contenders = {"overt": lambda: overt.attention(q, k, v, mask=ours, num_threads=threads)}
    contenders |= peers.forward(q, k, v, causal=causal, mask=bits, rule=rule, threads=threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    return compete(name, contenders, exact(q, k, v, mask=mask), clock=clock, floor=floor, goal=goal)


def near(t: Any, s: Any) -> Any:
    """The window as a function of positions."""
    return (s <= t) & (t - s < 256)


def rows() -> list[Row]:
    """The cases of the table of goals."""
    causal = overt.causal()
    half = overt.padding(np.array([256])), overt.padding(np.array([1024]))
    window = overt.window(255, 0)
    found = []
    for T, D, mask, floor, goal in (
        (128, 64, None, 1.15, 1.45),
        (512, 64, None, 1.2, 1.6),
        (2048, 64, None, 1.2, 1.6),
        (2048, 128, None, 1.08, 1.45),
        (128, 64, causal, 1.8, 2.3),
        (512, 64, causal, 1.8, 2.3),
        (2048, 64, causal, 1.25, 1.6),
        (512, 64, half[0], 1.3, 1.6),
        (2048, 64, half[1], 1.55, 2.0),
    ):
        kind = "full" if mask is None else "causal" if mask is causal else "padding"
        name = f"T = S = {T}, H = 8, D = {D}, {kind}"
        found.append(row(name, (1, 8, 8, T, T, D), mask, floor=floor, goal=goal))
    far = "T = S = 8192, H = 2, window of 256"
    sizes = 1, 2, 2, 8192, 8192, 64
    found.append(row(f"{far} as a dense mask", sizes, window, dense=True, rule=near, floor=1.1, goal=2.5))
    found.append(row(f"{far} as overt.window", sizes, window, rule=near, floor=3.0, goal=3.5))
    found.append(row("4 × 4, H = 4, D = 8", (1, 4, 4, 4, 4, 8), floor=1.0, goal=2.0))
    found.append(row("4 × 16 × 16, D = 32", (4, 16, 16, 16, 16, 32), floor=1.0, goal=2.0))
    found.append(
        row("decode 1 × 4096, H = 32, two threads", (1, 32, 32, 1, 4096, 128), threads=2, floor=1.05, goal=1.15)
    )
    found.append(
        row("decode 1 × 4096, H = 32, G = 8, two threads", (1, 32, 8, 1, 4096, 128), threads=2, floor=1.9, goal=2.5)
    )
    return found
