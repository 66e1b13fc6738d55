"""Grouped-query attention with a growing KV cache (llama layout: rotate halves)."""
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


class KV(NamedTuple):
    k: Tensor   # [B, Hkv, S, d], already rotated
    v: Tensor


def rope(x: Tensor, pos: Tensor, base: float = 10000.0) -> Tensor:
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    ang = pos.float()[:, None] * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


class GQA(nn.Module):
    """x [B, T, dim] are the newest T tokens; cache holds everything before.

    Query head h uses kv head h // (n_q // n_kv). Causal over absolute positions.
    Returns (y, cache) with y [B, T, dim].
    """

    def __init__(self, dim: int = 48, n_q: int = 6, n_kv: int = 2):
        super().__init__()
        self.n_q, self.n_kv, self.d = n_q, n_kv, dim // n_q
        self.wq = nn.Linear(dim, n_q * self.d, bias=False)
        self.wkv = nn.Linear(dim, 2 * n_kv * self.d, bias=False)
        self.wo = nn.Linear(n_q * self.d, dim, bias=False)

    def forward(self, x: Tensor, cache: Optional[KV] = None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache.k.shape[2]
        pos = torch.arange(past, past + T, device=x.device)
        q = rope(self.wq(x).view(B, T, self.n_q, self.d).transpose(1, 2), pos)
        k, v = self.wkv(x).view(B, T, 2, self.n_kv, self.d).permute(2, 0, 3, 1, 4)
        k = rope(k, pos)
        if cache is not None:
            k, v = torch.cat((cache.k, k), 2), torch.cat((cache.v, v), 2)
        cache = KV(k, v)
        # no copies of k/v: the group becomes an axis of q
        q = q.view(B, self.n_kv, -1, T, self.d)
        s = torch.einsum("bngtd,bnsd->bngts", q, k) * self.d ** -0.5
        future = torch.arange(past + T, device=x.device)[None] > pos[:, None]
        s = s.masked_fill(future, float("-inf"))
        p = s.float().softmax(-1).to(v.dtype)
        y = torch.einsum("bngts,bnsd->btngd", p, v)
        return self.wo(y.reshape(B, T, -1)), cache
