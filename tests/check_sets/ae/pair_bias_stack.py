from __future__ import annotations

import torch
from torch import nn


class PairBiasAttention(nn.Module):
    """Residue attention with an external pair bias and a learned bias per clipped distance.

    s         : (B, L, C)   single representation
    pair_bias : (B, H, L, L) bias from the pair track, the same tensor for every layer of the trunk
    """

    def __init__(self, c: int, heads: int, max_rel: int = 16):
        super().__init__()
        self.h, self.max_rel = heads, max_rel
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.rel = nn.Embedding(2 * max_rel + 1, heads)
        self.g = nn.Linear(c, c)
        self.o = nn.Linear(c, c)

    def relative(self, L: int, device) -> torch.Tensor:
        r = torch.arange(L, device=device)
        idx = (r[None, :] - r[:, None]).clamp(-self.max_rel, self.max_rel) + self.max_rel
        return self.rel(idx).permute(2, 0, 1)

    def forward(self, s: torch.Tensor, pair_bias: torch.Tensor) -> torch.Tensor:
        B, L, C = s.shape
        q, k, v = self.qkv(s).view(B, L, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        logits = pair_bias
        logits += self.relative(L, s.device)
        logits = logits + (q * (C // self.h) ** -0.5) @ k.mT
        a = torch.softmax(logits.float(), dim=-1).to(v.dtype)
        o = (a @ v).transpose(1, 2).reshape(B, L, C)
        return self.o(torch.sigmoid(self.g(s)) * o)


class Trunk(nn.Module):
    def __init__(self, c=32, heads=4, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(PairBiasAttention(c, heads) for _ in range(depth))

    def forward(self, s, pair_bias):
        for layer in self.layers:
            s = s + layer(s, pair_bias)
        return s
