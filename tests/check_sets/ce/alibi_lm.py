"""Decoder block with ALiBi (Press et al., "Train Short, Test Long", ICLR 2022).

No position embeddings. Head h gets the penalty  -m_h * (distance to the key) on
its logits. The slopes m_h are those of the paper's repository: a geometric
sequence 2^(-8/n), 2^(-16/n), ... when n is a power of two, and for other n those
of the closest smaller power p followed by every second slope of 2p.

`past` is a (k, v) pair of an earlier call; the block returns the new one.
"""
import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


def slopes_for(n: int) -> list[float]:
    if math.log2(n).is_integer():
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    p = 2 ** math.floor(math.log2(n))
    return slopes_for(p) + slopes_for(2 * p)[0::2][: n - p]


class ALiBiBlock(nn.Module):
    def __init__(self, width: int = 48, heads: int = 6, ff: int = 4):
        super().__init__()
        self.heads = heads
        self.ln_a = nn.LayerNorm(width)
        self.ln_m = nn.LayerNorm(width)
        self.wqkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, ff * width), nn.GELU(), nn.Linear(ff * width, width))
        self.register_buffer("slopes", torch.tensor(slopes_for(heads)), persistent=False)

    def bias(self, n_q: int, n_k: int) -> torch.Tensor:
        """[heads, n_q, n_k]; the queries are the last n_q of the n_k positions."""
        k_pos = torch.arange(n_k, device=self.slopes.device)
        q_pos = k_pos[n_k - n_q:]
        dist = q_pos[:, None] - k_pos[None, :]
        b = -self.slopes[:, None, None] * dist
        return b.masked_fill(dist < 0, float("-inf"))

    def forward(self, x: torch.Tensor, past: Optional[tuple] = None):
        h = self.ln_a(x)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.wqkv(h).chunk(3, dim=-1))
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        bias = self.bias(q.size(2), k.size(2)).to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_m(x)), (k, v)


if __name__ == "__main__":
    torch.manual_seed(0)
    blk, x = ALiBiBlock(), torch.randn(2, 9, 48)
    full, _ = blk(x)
    part, cache = blk(x[:, :6])
    rest, cache = blk(x[:, 6:], cache)
    print((full - torch.cat([part, rest], 1)).abs().max().item())
