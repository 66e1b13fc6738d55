"""What does overt.torch cost beside torch's own attention?  float32, one thread, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import overt
from benchmarks.contest import Row, compete
from benchmarks.forward import inputs
from benchmarks.peers import Call
from overt.torch import attention

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
# B, H, T, D; tiny, short, and long enough for the kernels to matter.
SHAPES = (1, 4, 4, 8), (8, 4, 16, 16), (1, 8, 16, 64), (1, 8, 512, 64), (1, 8, 2048, 64)


def rows() -> list[Row]:
    """Forward, and forward with gradients, which FlexAttention does not have on the CPU."""
    torch.set_num_threads(1)
    found = []
    for B, H, T, D in SHAPES:
        for causal in (False, True) if T >= 512 else (False,):
            tensors = [torch.from_numpy(x) for x in inputs(B, H, H, T, T, D)]
            mask = overt.causal() if causal else None

            def ours(q: Tensor, k: Tensor, v: Tensor, mask: overt.masks.Mask | None = mask) -> Tensor:
                return attention(q, k, v, mask=mask)

            def theirs(q: Tensor, k: Tensor, v: Tensor, causal: bool = causal) -> Tensor:
                return scaled_dot_product_attention(q, k, v, is_causal=causal)

            name = f"B = {B}, H = {H}, T = {T}, D = {D}, {'causal' if causal else 'full'}"
            for way in ("eager", "compiled"):
                pair: dict[str, Attention] = {"overt": ours, "torch": theirs}
                if way == "compiled":
                    torch._dynamo.reset()
                    pair = {who: torch.compile(f, fullgraph=True) for who, f in pair.items()}
                calls = {who: _forward(f, tensors) for who, f in pair.items()}
                if way == "compiled" and D >= 16:
                    calls["FlexAttention"] = _forward(_flex(T, causal), tensors)
                exact = theirs(*(x.double() for x in tensors)).numpy()
                found.append(compete(f"forward, {name}, {way}", calls, exact, budget=2.0))
                back = {who: _back(f, tensors) for who, f in pair.items()}
                exact = _back(theirs, [x.double() for x in tensors])()
                found.append(compete(f"with gradients, {name}, {way}", back, exact, budget=2.0, tolerance=1e-4))
    return found


def _forward(f: Attention, tensors: list[Tensor]) -> Call:
    def call() -> np.ndarray:
        with torch.no_grad():
            return f(*tensors).numpy()

    return call


def _back(f: Attention, tensors: list[Tensor]) -> Call:
    leaves = [x.clone().requires_grad_() for x in tensors]
    dy = leaves[0].detach().flip(-1).contiguous()
    return lambda: torch.autograd.grad(f(*leaves), leaves, dy)[1].numpy()


def _flex(T: int, causal: bool) -> Attention:
    blocks = create_block_mask(lambda b, h, t, s: t >= s, None, None, T, T, device="cpu") if causal else None
    compiled = torch.compile(flex_attention)
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks)
