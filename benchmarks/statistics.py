"""What does it cost to know where it looked?  Output, received attention and entropy, one thread."""

from __future__ import annotations

import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete
from benchmarks.forward import inputs


def rows() -> list[Row]:
    """Against textbook torch, and against overt's own forward, of which it may take 1.5 times."""
    found = []
    for T, floor in ((512, 2.3), (2048, 4.5)):
        q, k, v = inputs(1, 8, 8, T, T, 64)

        def ours(q: np.ndarray = q, k: np.ndarray = k, v: np.ndarray = v) -> np.ndarray:
            seen = overt.attend(q, k, v, num_threads=1)
            seen.entropy()
            return seen.received()

        seen = overt.attend(*(x.astype(np.float64) for x in (q, k, v)))
        contenders = {"overt": ours}
        if "torch" not in peers.missing():
            contenders["torch, all weights"] = _torch(q, k, v)
        found.append(compete(f"T = S = {T}, H = 8, D = 64", contenders, seen.received(), floor=floor))

        def plain(q: np.ndarray = q, k: np.ndarray = k, v: np.ndarray = v) -> np.ndarray:
            return overt.attention(q, k, v, num_threads=1)

        own = {"overt": ours, "overt's forward alone": plain}
        found.append(compete(f"T = S = {T}, against its own forward", own, None, floor=1 / 1.5))
    return found


def _torch(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> peers.Call:
    import torch

    torch.set_num_threads(1)
    q, k, v = (torch.from_numpy(x) for x in (q, k, v))

    def run() -> np.ndarray:
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        weights @ v
        torch.special.entr(weights).sum(-1)
        return weights.sum(-2).numpy()

    return run
