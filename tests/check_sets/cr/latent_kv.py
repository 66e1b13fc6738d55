"""Multi-head latent attention (DeepSeek-V2) in the weight-absorbed form used for decoding."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class LatentConfig:
    dim: int = 32
    n_heads: int = 4
    kv_rank: int = 12
    nope_dim: int = 8
    rope_dim: int = 4
    v_dim: int = 6
    theta: float = 10000.0


def rotate_pairs(x, pos, theta):
    """Rotate (x[2i], x[2i+1]) by pos * theta**(-2i/d).  x: (B, L, ..., d), pos: (L,)"""
    d = x.size(-1)
    freq = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos.to(torch.float32)[:, None] * freq
    ang = ang.view(1, pos.numel(), *[1] * (x.dim() - 3), d // 2)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], -1).flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self, cfg: LatentConfig):
        super().__init__()
        self.cfg = c = cfg
        self.wq = nn.Linear(c.dim, c.n_heads * (c.nope_dim + c.rope_dim), bias=False)
        self.wkv_down = nn.Linear(c.dim, c.kv_rank + c.rope_dim, bias=False)
        self.w_uk = nn.Parameter(torch.randn(c.n_heads, c.nope_dim, c.kv_rank) * c.kv_rank ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(c.n_heads, c.v_dim, c.kv_rank) * c.kv_rank ** -0.5)
        self.wo = nn.Linear(c.n_heads * c.v_dim, c.dim, bias=False)
        self.scale = (c.nope_dim + c.rope_dim) ** -0.5

    def forward(self, x, cache=None):
        """x: (B, L, dim) new tokens.  cache: (latents, rotary keys) of the earlier tokens.

        Causal.  Returns (B, L, dim) and the extended cache.
        """
        c = self.cfg
        B, L, _ = x.shape
        past = 0 if cache is None else cache[0].size(1)
        pos = torch.arange(past, past + L, device=x.device)
        q = self.wq(x).view(B, L, c.n_heads, -1)
        q_nope, q_rope = q.split([c.nope_dim, c.rope_dim], dim=-1)
        q_rope = rotate_pairs(q_rope, pos, c.theta)
        lat, k_rope = self.wkv_down(x).split([c.kv_rank, c.rope_dim], dim=-1)
        k_rope = rotate_pairs(k_rope, pos, c.theta)
        if cache is not None:
            lat = torch.cat([cache[0], lat], dim=1)
            k_rope = torch.cat([cache[1], k_rope], dim=1)

        q_lat = torch.einsum("blhd,hdr->blhr", q_nope, self.w_uk)
        s = torch.einsum("blhr,btr->bhlt", q_lat, lat) + torch.einsum("blhe,bte->bhlt", q_rope, k_rope)
        later = torch.arange(past + L, device=x.device) > pos[:, None]
        p = (s * self.scale).masked_fill(later, float("-inf")).softmax(-1)
        ctx = torch.einsum("bhlt,btr->blhr", p, lat)
        y = torch.einsum("blhr,hvr->blhv", ctx, self.w_uv)
        return self.wo(y.flatten(2)), (lat, k_rope)
