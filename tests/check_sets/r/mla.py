from types import SimpleNamespace

import torch
from torch import nn


CFG = SimpleNamespace(dim=24, n_heads=3, kv_rank=10, nope=6, rope=4, v_dim=5)


def rotate(x, theta=10000.0):
    """x (B, L, ..., d): neighbouring pairs as complex numbers, positions 0 .. L - 1."""
    L, d = x.shape[1], x.shape[-1]
    angle = torch.outer(torch.arange(L), theta ** (-torch.arange(0, d, 2) / d))
    turn = torch.polar(torch.ones_like(angle), angle).view(1, L, *[1] * (x.ndim - 3), d // 2)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)


class MLA(nn.Module):
    """Multi-head latent attention (DeepSeek-V2), causal, with the key's up-projection absorbed into the query.

    Keys are never made: a head's query is carried into the latent space and scored against the latents, and the
    values are the latents too, brought up after the weighted sum.  One rotary key is shared by all heads.
    The scale is that of the keys nobody sees, (nope + rope) ** -0.5, and not of the latents.
    """

    def __init__(self, cfg=CFG):
        super().__init__()
        self.cfg = cfg
        self.wq = nn.Linear(cfg.dim, cfg.n_heads * (cfg.nope + cfg.rope), bias=False)
        self.wkv_a = nn.Linear(cfg.dim, cfg.kv_rank + cfg.rope, bias=False)
        self.wuk = nn.Parameter(torch.randn(cfg.n_heads, cfg.nope, cfg.kv_rank) * cfg.kv_rank**-0.5)
        self.wuv = nn.Parameter(torch.randn(cfg.n_heads, cfg.v_dim, cfg.kv_rank) * cfg.kv_rank**-0.5)
        self.wo = nn.Linear(cfg.n_heads * cfg.v_dim, cfg.dim, bias=False)

    def forward(self, x):
        c, (B, L, _) = self.cfg, x.shape
        q_nope, q_pe = self.wq(x).view(B, L, c.n_heads, -1).split([c.nope, c.rope], -1)
        lat, k_pe = self.wkv_a(x).split([c.kv_rank, c.rope], -1)
        q_lat = torch.einsum("blhd,hdc->blhc", q_nope, self.wuk)
        s = torch.einsum("blhc,btc->bhlt", q_lat, lat) + torch.einsum("blhr,btr->bhlt", rotate(q_pe), rotate(k_pe))
        s = s * (c.nope + c.rope) ** -0.5
        s = s.masked_fill(torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        o = torch.einsum("bhlt,btc->blhc", s.softmax(-1), lat)
        return self.wo(torch.einsum("blhc,hdc->blhd", o, self.wuv).flatten(2))
