"""Multi-head latent attention after DeepSeek-V2, in the absorbed (decode-friendly) form."""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import nn


@dataclass
class LatentCfg:
    dim: int = 32
    heads: int = 4
    rank: int = 10       # width of the cached latent
    nope: int = 6        # per-head width without position
    rope: int = 4        # per-head width with rotary position
    vdim: int = 7


def spin(x, start):
    """x (B, T, ..., rope): neighbouring dims (2i, 2i+1) are one complex number."""
    T, d = x.shape[1], x.shape[-1]
    theta = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = torch.arange(start, start + T, dtype=torch.float32)[:, None] * theta
    z = torch.polar(torch.ones_like(ang), ang).to(x.device)
    z = z.view(1, T, *([1] * (x.dim() - 3)), d // 2)
    c = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    return torch.view_as_real(c * z).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    def __init__(self, cfg: LatentCfg = LatentCfg()):
        super().__init__()
        self.cfg = c = cfg
        self.wq = nn.Linear(c.dim, c.heads * (c.nope + c.rope), bias=False)
        self.down = nn.Linear(c.dim, c.rank + c.rope, bias=False)
        self.norm = nn.RMSNorm(c.rank, eps=1e-6)
        self.up = nn.Parameter(torch.randn(c.heads, c.nope + c.vdim, c.rank) * c.rank ** -0.5)
        self.wo = nn.Linear(c.heads * c.vdim, c.dim, bias=False)

    def forward(self, x, past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        """Causal. x: (B, T, dim), the tokens after those in `past`. Returns (y, new past)."""
        c = self.cfg
        B, T, _ = x.shape
        start = past[0].shape[1] if past is not None else 0
        q = self.wq(x).view(B, T, c.heads, c.nope + c.rope)
        qn, qr = q.split([c.nope, c.rope], -1)
        qr = spin(qr, start)
        lat, kr = self.down(x).split([c.rank, c.rope], -1)
        lat, kr = self.norm(lat), spin(kr, start)
        if past is not None:
            lat, kr = torch.cat([past[0], lat], 1), torch.cat([past[1], kr], 1)
        up_k, up_v = self.up.split([c.nope, c.vdim], 1)
        ql = torch.einsum("bthn,hnr->bthr", qn, up_k)
        s = torch.einsum("bthr,bsr->bhts", ql, lat) + torch.einsum("bthr,bsr->bhts", qr, kr)
        s = s * (c.nope + c.rope) ** -0.5
        S = start + T
        later = torch.arange(S)[None, :] > torch.arange(start, S)[:, None]
        s = s.masked_fill(later.to(s.device), float("-inf"))
        p = s.float().softmax(-1).type_as(s)
        y = torch.einsum("bhts,bsr->bthr", p, lat)
        y = torch.einsum("bthr,hvr->bthv", y, up_v)
        return self.wo(y.flatten(2)), (lat, kr)
