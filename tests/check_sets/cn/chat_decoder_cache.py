"""Decoder attention of our small chat model.

* grouped queries: `n_heads` query heads share `n_kv` key/value heads, query head
  h reads kv head h // (n_heads // n_kv)
* rotary positions, interleaved pairs (x0, x1), (x2, x3), ... as in the RoPE paper
* keys are cached AFTER the rotation
* causal; with a cache the new tokens come behind everything that is stored
"""
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn


class KV(NamedTuple):
    k: Tensor  # [B, n_kv, S, d]
    v: Tensor


def rotate_pairs(x: Tensor, pos: Tensor, base: float = 10000.0) -> Tensor:
    """x [B, H, T, d], pos [T]"""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos.float()[:, None] * inv[None, :]            # [T, d/2]
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    out = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return out.flatten(-2)


class ChatAttention(nn.Module):
    def __init__(self, d_model: int = 64, n_heads: int = 8, n_kv: int = 2):
        super().__init__()
        assert d_model % n_heads == 0 and n_heads % n_kv == 0
        self.n_heads, self.n_kv = n_heads, n_kv
        self.d = d_model // n_heads
        self.wq = nn.Linear(d_model, n_heads * self.d, bias=False)
        self.wk = nn.Linear(d_model, n_kv * self.d, bias=False)
        self.wv = nn.Linear(d_model, n_kv * self.d, bias=False)
        self.wo = nn.Linear(n_heads * self.d, d_model, bias=False)

    def forward(self, x: Tensor, cache: Optional[KV] = None) -> Tuple[Tensor, KV]:
        B, T, _ = x.shape
        past = 0 if cache is None else cache.k.shape[2]
        q = self.wq(x).view(B, T, self.n_heads, self.d).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv, self.d).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv, self.d).transpose(1, 2)

        pos = torch.arange(past, past + T, device=x.device)
        q, k = rotate_pairs(q, pos), rotate_pairs(k, pos)
        if cache is not None:
            k = torch.cat((cache.k, k), dim=2)
            v = torch.cat((cache.v, v), dim=2)
        new_cache = KV(k, v)

        S = k.shape[2]
        # queries grouped per kv head: [B, n_kv, g, T, d]
        q = q.unflatten(1, (self.n_kv, self.n_heads // self.n_kv))
        s = torch.einsum("bngtd,bnsd->bngts", q, k) * self.d ** -0.5
        visible = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        s = s.masked_fill(~visible, float("-inf"))
        p = s.float().softmax(dim=-1).to(v.dtype)
        y = torch.einsum("bngts,bnsd->btngd", p, v)
        return self.wo(y.reshape(B, T, -1)), new_cache
