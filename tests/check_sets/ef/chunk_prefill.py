"""Chunked prefill: a long prompt goes through the layer in pieces.

ChunkedAttention(x, past=None) -> y, past
    x     (B, T, D) the next T tokens, T may differ from call to call
    past  None or (k, v), each (B, Hkv, P, d), what earlier calls returned
    y     (B, T, D)

Piece after piece gives the same y as the whole prompt at once: token P+t sees
the positions 0..P+t. Grouped key/value heads, neighbouring query heads share
one. Scale 1/sqrt(d).
"""
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KV = Tuple[Tensor, Tensor]


class ChunkedAttention(nn.Module):
    def __init__(self, D: int = 32, Hq: int = 4, Hkv: int = 2) -> None:
        super().__init__()
        self.Hq, self.Hkv, self.d = Hq, Hkv, D // Hq
        self.wq = nn.Linear(D, Hq * self.d, bias=False)
        self.wkv = nn.Linear(D, 2 * Hkv * self.d, bias=False)
        self.wo = nn.Linear(Hq * self.d, D, bias=False)

    def forward(self, x: Tensor, past: Optional[KV] = None) -> Tuple[Tensor, KV]:
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.Hq, self.d).transpose(1, 2)
        k, v = self.wkv(x).view(B, T, 2, self.Hkv, self.d).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.size(2)
        if T == 1:
            keep = None                      # the newest token sees everything
        else:
            keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        return self.wo(y.transpose(1, 2).flatten(2)), (k, v)
