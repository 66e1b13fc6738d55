"""How fast are the gradients of q, k and v, the forward left out?  float32, one thread, against torch's autograd."""

from __future__ import annotations

import numpy as np

import overt
from benchmarks import peers
from benchmarks.contest import Row, compete
from benchmarks.forward import inputs


def rows() -> list[Row]:
    """Full and causal, and a batch of short sentences; what is compared is the gradient of k."""
    found = []
    for B, H, T in ((1, 8, 512), (1, 8, 2048), (100, 4, 15)):
        for causal, floor, goal in ((False, 1.2, 1.5), (True, 1.4, 2.0)):
            q, k, v = inputs(B, H, H, T, T, 64)
            dy = np.ascontiguousarray(q[..., ::-1])
            mask = overt.causal() if causal else None
            seen = overt.attend(q, k, v, mask=mask, num_threads=1)
            exact = overt.attend(*(x.astype(np.float64) for x in (q, k, v)), mask=mask).gradient(dy.astype(np.float64))
            contenders = {"overt": lambda seen=seen, dy=dy: seen.gradient(dy).k}
            if "torch" not in peers.missing():
                contenders["torch"] = _torch(q, k, v, dy, causal)
            name = f"T = S = {T}, {f'B = {B}, ' if B > 1 else ''}H = {H}, D = 64, {'causal' if causal else 'full'}"
            goals = (None, None) if B > 1 else (floor, goal)
            found.append(compete(name, contenders, exact.k, floor=goals[0], goal=goals[1]))
    return found


def _torch(q: np.ndarray, k: np.ndarray, v: np.ndarray, dy: np.ndarray, causal: bool) -> peers.Call:
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    output = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
    grad = torch.from_numpy(dy)
    return lambda: torch.autograd.grad(output, tensors, grad, retain_graph=True)[1].numpy()
