"""Multi-head latent attention with the compressed cache (absorbed form), batch of one stream each."""
import torch
from torch import nn


class Config:
    dim = 64
    heads = 4
    nope = 12
    rope = 8
    v_dim = 10
    latent = 20
    theta = 10000.0


def rotate(x, pos, theta):
    """pairs (2i, 2i+1); x [B, L, ..., r], pos [L]"""
    r = x.shape[-1]
    inv = theta ** (-torch.arange(0, r, 2, dtype=torch.float64, device=x.device) / r)
    ang = pos.to(torch.float64)[:, None] * inv
    ang = ang.view(1, len(pos), *([1] * (x.dim() - 3)), r // 2)
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)


class LatentCache:
    def __init__(self):
        self.c = None
        self.kr = None

    def __len__(self):
        return 0 if self.c is None else self.c.shape[1]

    def push(self, c, kr):
        self.c = c if self.c is None else torch.cat([self.c, c], 1)
        self.kr = kr if self.kr is None else torch.cat([self.kr, kr], 1)
        return self.c, self.kr


class MLA(nn.Module):
    """k_h = [W_uk_h c ; k_rope], v_h = W_uv_h c; only c and k_rope are kept.

    W_uk is applied to the query instead of to the whole cache. Causal; new
    tokens stand at the end of the cache.
    """

    def __init__(self, cfg=Config):
        super().__init__()
        self.cfg = cfg
        self.wq = nn.Linear(cfg.dim, cfg.heads * (cfg.nope + cfg.rope), bias=False)
        self.wdkv = nn.Linear(cfg.dim, cfg.latent + cfg.rope, bias=False)
        self.norm = nn.RMSNorm(cfg.latent, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(cfg.heads, cfg.nope, cfg.latent) * cfg.latent ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(cfg.heads, cfg.v_dim, cfg.latent) * cfg.latent ** -0.5)
        self.wo = nn.Linear(cfg.heads * cfg.v_dim, cfg.dim, bias=False)
        self.scale = (cfg.nope + cfg.rope) ** -0.5

    def forward(self, x, cache=None):
        cfg = self.cfg
        b, l, _ = x.shape
        past = 0 if cache is None else len(cache)
        pos = torch.arange(past, past + l, device=x.device)
        qn, qr = self.wq(x).view(b, l, cfg.heads, -1).split([cfg.nope, cfg.rope], dim=-1)
        qr = rotate(qr, pos, cfg.theta)
        c, kr = self.wdkv(x).split([cfg.latent, cfg.rope], dim=-1)
        c, kr = self.norm(c), rotate(kr, pos, cfg.theta)
        if cache is not None:
            c, kr = cache.push(c, kr)
        q_lat = torch.einsum("blhn,hnc->blhc", qn, self.w_uk)
        s = torch.einsum("blhc,btc->bhlt", q_lat, c) + torch.einsum("blhr,btr->bhlt", qr, kr)
        seen = torch.arange(c.shape[1], device=x.device)[None, :] <= pos[:, None]
        s = (s * self.scale).masked_fill(~seen, float("-inf"))
        lat = torch.einsum("bhlt,btc->blhc", s.softmax(-1), c)
        out = torch.einsum("blhc,hvc->blhv", lat, self.w_uv)
        return self.wo(out.flatten(2))
