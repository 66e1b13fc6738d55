from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class AttnConfig:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    rope_base: float = 10000.0


def rotate(x, pos, base):
    """Half-split (NeoX / HF) rotary embedding. x: (B, H, L, d), pos: (L,)."""
    half = x.shape[-1] // 2
    inv = base ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * inv[None, :]
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class CachedGQA(nn.Module):
    """Causal grouped-query attention; the cache holds already rotated keys."""

    def __init__(self, cfg: AttnConfig):
        super().__init__()
        self.cfg = cfg
        self.hd = cfg.dim // cfg.n_heads
        self.wq = nn.Linear(cfg.dim, cfg.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(cfg.n_heads * self.hd, cfg.dim, bias=False)

    def forward(self, x, cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        B, L, _ = x.shape
        past = 0 if cache is None else cache[0].shape[2]
        pos = torch.arange(past, past + L, device=x.device)
        q = self.wq(x).view(B, L, self.cfg.n_heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, L, self.cfg.n_kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, L, self.cfg.n_kv_heads, self.hd).transpose(1, 2)
        q, k = rotate(q, pos, self.cfg.rope_base), rotate(k, pos, self.cfg.rope_base)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        new_cache = (k, v)

        g = self.cfg.n_heads // self.cfg.n_kv_heads
        q = q.view(B, self.cfg.n_kv_heads, g, L, self.hd)
        s = torch.einsum("bkgid,bkjd->bkgij", q, k) * self.hd ** -0.5
        visible = torch.arange(k.shape[2], device=x.device)[None, :] <= pos[:, None]
        s = s.masked_fill(~visible, float("-inf"))
        p = torch.softmax(s.float(), dim=-1).to(s.dtype)
        o = torch.einsum("bkgij,bkjd->bikgd", p, v).reshape(B, L, -1)
        return self.wo(o), new_cache
