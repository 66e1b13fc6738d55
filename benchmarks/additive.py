"""How fast is the additive score?  float32, A = D = 128, two threads, wall time, against torch, eager and compiled."""

from __future__ import annotations

import time

import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete


def rows() -> list[Row]:
    """Forward alone."""
    found = []
    for T, floor, goal in ((64, 3, 5), (256, 10, 16), (1024, 10, 16)):
        rng = np.random.default_rng(0)
        q, k, v = (rng.normal(size=(1, T, 128)).astype(np.float32) for _ in range(3))
        weights = [rng.normal(size=shape).astype(np.float32) / 12 for shape in ((128, 128), (128, 128), (128,))]
        score = overt.additive(*weights)
        exact = overt.attention(*(x.astype(np.float64) for x in (q, k, v)), score=score)
        contenders = {"overt": lambda q=q, k=k, v=v, score=score: overt.attention(q, k, v, score=score, num_threads=2)}
        if "torch" not in peers.missing():
            contenders |= _torch(q, k, v, weights)
        found.append(compete(f"T = S = {T}", contenders, exact, clock=time.perf_counter, floor=floor, goal=goal))
    return found


def _torch(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: list[np.ndarray]) -> dict[str, peers.Call]:
    import torch

    torch.set_num_threads(2)
    tensors = [torch.from_numpy(x) for x in (q, k, v, *weights)]

    def attend(q, k, v, query_weight, key_weight, vector):
        hidden = torch.tanh((q @ query_weight.T)[:, :, None] + (k @ key_weight.T)[:, None])
        return torch.softmax(hidden @ vector, dim=-1) @ v

    compiled = torch.compile(attend)
    return {"torch": lambda: attend(*tensors).numpy(), "torch, compiled": lambda: compiled(*tensors).numpy()}
