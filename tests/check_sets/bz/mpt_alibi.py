"""MPT-7B style attention (MosaicML), inference port without flash-attn.

No positional embedding: ALiBi adds  -slope_h * (i - j)  to the logit of query i and key j <= i,
slopes 2^(-8h/H), h = 1..H (H a power of two).  One fused Wqkv, optional clipping of
q, k, v (`clip_qkv`), cache returned as (k, v).
"""
import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


def alibi_slopes(n_heads: int, alibi_bias_max: int = 8) -> Tensor:
    m = torch.arange(1, n_heads + 1, dtype=torch.float32)
    return 1.0 / torch.pow(2, m * alibi_bias_max / n_heads)


class MPTAttention(nn.Module):
    def __init__(self, d_model: int = 32, n_heads: int = 4, clip_qkv: Optional[float] = None):
        super().__init__()
        if n_heads & (n_heads - 1):
            raise ValueError("number of heads must be a power of two")
        self.n_heads = n_heads
        self.clip_qkv = clip_qkv
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def bias(self, t: int, s: int) -> Tensor:
        i = torch.arange(s - t, s, device=self.slopes.device).view(t, 1)
        j = torch.arange(s, device=self.slopes.device).view(1, s)
        return self.slopes.view(-1, 1, 1) * (i - j)

    def forward(
        self, x: Tensor, past: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        b, t, d = x.shape
        qkv = self.Wqkv(x)
        if self.clip_qkv is not None:
            qkv = qkv.clamp(-self.clip_qkv, self.clip_qkv)
        q, k, v = (z.view(b, t, self.n_heads, -1).transpose(1, 2) for z in qkv.chunk(3, dim=2))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        s = k.size(2)

        logits = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + self.bias(t, s)
        future = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s - t + 1)
        logits = logits.masked_fill(future, -math.inf)
        weights = torch.softmax(logits.float(), dim=-1).to(q.dtype)
        y = (weights @ v).transpose(1, 2).reshape(b, t, d)
        return self.out_proj(y), (k, v)


if __name__ == "__main__":
    att = MPTAttention(clip_qkv=6.0)
    x = torch.randn(1, 7, 32)
    full, _ = att(x)
    _, kv = att(x[:, :5])
    tail, _ = att(x[:, 5:], kv)
    print((full[:, 5:] - tail).abs().max().item())
