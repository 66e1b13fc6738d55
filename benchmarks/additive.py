"""How fast is the additive score?  float32, A = D = 128, one thread, against torch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete


def rows() -> list[Row]:
    """Forward; then forward and all gradients, of which that of the queries' projection is compared."""
    found = []
    for T, floor, goal in ((64, 3, 5), (256, 10, 16), (1024, 10, 16)):
        arrays = inputs(T)
        contenders: dict[str, peers.Call] = {"overt": lambda arrays=arrays: forward(*arrays, num_threads=1).output}
        if "torch" not in peers.missing():
            contenders |= {name: _forward(call, arrays) for name, call in torch_calls().items()}
        exact = forward(*(x.astype(np.float64) for x in arrays)).output
        found.append(compete(f"T = S = {T}, forward", contenders, exact, floor=floor, goal=goal))
    for T in (256, 1024):
        arrays = inputs(T)
        contenders = {"overt": lambda arrays=arrays: both(*arrays, num_threads=1)}
        if "torch" not in peers.missing():
            contenders |= {name: _both(call, arrays) for name, call in torch_calls().items()}
        exact = both(*(x.astype(np.float64) for x in arrays))
        name = f"T = S = {T}, forward and gradients"
        found.append(compete(name, contenders, exact, tolerance=1e-4, floor=10, goal=25))
    return found


def inputs(T: int) -> list[np.ndarray]:
    """q, k, v, dy and the parameters."""
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(1, T, 128)).astype(np.float32) for _ in range(4)]
    return sequences + [rng.normal(size=shape).astype(np.float32) / 12 for shape in ((128, 128), (128, 128), (128,))]


def forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, *weights: np.ndarray, **options: int
) -> overt.Attended:
    return overt.attend(q, k, v, score=overt.additive(*weights), **options)


def both(q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, *weights: np.ndarray, **options: int) -> Any:
    return forward(q, k, v, dy, *weights, **options).gradient(dy).score["query_weight"]


def torch_calls() -> dict[str, Callable[..., Any]]:
    import torch

    torch.set_num_threads(1)

    def attend(q, k, v, query_weight, key_weight, vector):
        hidden = torch.tanh((q @ query_weight.T)[:, :, None] + (k @ key_weight.T)[:, None])
        return torch.softmax(hidden @ vector, dim=-1) @ v

    return {"torch": attend, "torch, compiled": torch.compile(attend, dynamic=False)}


def _forward(call: Callable[..., Any], arrays: list[np.ndarray]) -> peers.Call:
    import torch

    q, k, v, _, *weights = map(torch.from_numpy, arrays)
    return lambda: call(q, k, v, *weights).numpy()


def _both(call: Callable[..., Any], arrays: list[np.ndarray]) -> peers.Call:
    import torch

    q, k, v, dy, *weights = map(torch.from_numpy, arrays)
    leaves = [x.clone().requires_grad_() for x in (q, k, v, *weights)]
    return lambda: torch.autograd.grad(call(*leaves), leaves, dy)[3].numpy()
