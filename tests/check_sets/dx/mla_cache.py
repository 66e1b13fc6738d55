"""Multi-head latent attention (DeepSeek-V2 paper, section 2.1), small and readable.

Only two things are cached per token: the compressed vector c (rank `kv_rank`) and one rotated
positional key k_rope shared by all heads. Keys and values are rebuilt from c at every call.

    x: (B, T, dim). With no cache the T tokens are a whole prompt; with a cache they are the T
    tokens that follow it. Always causal: token t reads itself and everything before it.
    Scores are scaled by 1/sqrt(nope + rope). Rotary pairs are the neighbours (2i, 2i+1), and
    positions count from the first token ever put into the cache.

forward(x, cache=None) -> (y, cache); feed the cache back in, it is a plain tuple.
Feeding a text at once or in pieces gives the same y.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MLAConfig:
    dim: int = 64
    heads: int = 4
    kv_rank: int = 24
    nope: int = 16
    rope: int = 8
    v_dim: int = 12
    theta: float = 10000.0


def rotate(x, pos, theta):
    """x (..., T, r) with pos (T,)"""
    r = x.size(-1)
    freq = theta ** (-torch.arange(0, r, 2, device=x.device, dtype=torch.float32) / r)
    ang = pos.float()[:, None] * freq
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], r // 2, 2).contiguous())
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).type_as(x)


class MLA(nn.Module):
    def __init__(self, cfg: MLAConfig):
        super().__init__()
        self.cfg = c = cfg
        self.wq = nn.Linear(c.dim, c.heads * (c.nope + c.rope), bias=False)
        self.w_down = nn.Linear(c.dim, c.kv_rank + c.rope, bias=False)
        self.norm = nn.RMSNorm(c.kv_rank)
        self.w_uk = nn.Linear(c.kv_rank, c.heads * c.nope, bias=False)
        self.w_uv = nn.Linear(c.kv_rank, c.heads * c.v_dim, bias=False)
        self.wo = nn.Linear(c.heads * c.v_dim, c.dim, bias=False)

    def forward(self, x, cache=None):
        c = self.cfg
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].size(1)
        pos = torch.arange(past, past + T, device=x.device)

        q = self.wq(x).view(B, T, c.heads, c.nope + c.rope).transpose(1, 2)
        q_nope, q_rope = q.split([c.nope, c.rope], dim=-1)
        q_rope = rotate(q_rope, pos, c.theta)

        lat, k_rope = self.w_down(x).split([c.kv_rank, c.rope], dim=-1)
        lat, k_rope = self.norm(lat), rotate(k_rope, pos, c.theta)
        if cache is not None:
            lat = torch.cat([cache[0], lat], dim=1)
            k_rope = torch.cat([cache[1], k_rope], dim=1)
        S = past + T

        k_nope = self.w_uk(lat).view(B, S, c.heads, c.nope).transpose(1, 2)
        v = self.w_uv(lat).view(B, S, c.heads, c.v_dim).transpose(1, 2)
        s = q_nope @ k_nope.transpose(-1, -2) + q_rope @ k_rope[:, None].transpose(-1, -2)
        s = s * (c.nope + c.rope) ** -0.5
        seen = torch.arange(S, device=x.device)[None, :] <= pos[:, None]
        s = s.masked_fill(~seen, float("-inf"))
        p = torch.softmax(s.float(), dim=-1).type_as(x)
        y = (p @ v).transpose(1, 2).reshape(B, T, -1)
        return self.wo(y), (lat, k_rope)
