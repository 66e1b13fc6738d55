"""Multi-head latent attention (DeepSeek-V2 style) with the absorbed decode path.

``forward`` is used for training, ``decode`` for one new token against the
compressed cache.  Both must give the same numbers for the last position.
"""
from __future__ import annotations

import torch
import torch.nn as nn


def rotate(x: torch.Tensor, pos: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Interleaved rotary embedding of the last dim; pos has shape (T,)."""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = pos[:, None].float() * inv
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2).to(x)


class LatentAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, d_nope: int = 8, d_rope: int = 4,
                 d_v: int = 6, rank: int = 12):
        super().__init__()
        self.h, self.dn, self.dr, self.dv, self.rank = heads, d_nope, d_rope, d_v, rank
        self.wq = nn.Linear(dim, heads * (d_nope + d_rope), bias=False)
        self.wkv_a = nn.Linear(dim, rank + d_rope, bias=False)
        self.wkv_b = nn.Linear(rank, heads * (d_nope + d_v), bias=False)
        self.wo = nn.Linear(heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def _queries(self, x, pos):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.h, self.dn + self.dr).transpose(1, 2)
        qn, qr = q.split([self.dn, self.dr], dim=-1)
        return qn, rotate(qr, pos)

    def _latent(self, x, pos):
        c, kr = self.wkv_a(x).split([self.rank, self.dr], dim=-1)
        return c, rotate(kr, pos)

    def forward(self, x):
        """Causal attention over x (B, T, dim)."""
        B, T, _ = x.shape
        pos = torch.arange(T)
        qn, qr = self._queries(x, pos)
        c, kr = self._latent(x, pos)
        kv = self.wkv_b(c).view(B, T, self.h, self.dn + self.dv).transpose(1, 2)
        kn, v = kv.split([self.dn, self.dv], dim=-1)
        s = qn @ kn.transpose(-1, -2) + qr @ kr.unsqueeze(1).transpose(-1, -2)
        s = s * self.scale
        s = s.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
        p = torch.softmax(s.float(), dim=-1).to(x.dtype)
        return self.wo((p @ v).transpose(1, 2).reshape(B, T, -1))

    def decode(self, x, cache=None):
        """x (B, 1, dim); cache = (latent (B,P,rank), rope key (B,P,dr)) or None."""
        B = x.shape[0]
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.tensor([past])
        qn, qr = self._queries(x, pos)
        c, kr = self._latent(x, pos)
        if cache is not None:
            c, kr = torch.cat([cache[0], c], 1), torch.cat([cache[1], kr], 1)
        w = self.wkv_b.weight.view(self.h, self.dn + self.dv, self.rank)
        q_lat = torch.einsum("bhtd,hdr->bhtr", qn, w[:, :self.dn])
        s = torch.einsum("bhtr,bsr->bhts", q_lat, c) + torch.einsum("bhtd,bsd->bhts", qr, kr)
        p = torch.softmax((s * self.scale).float(), dim=-1).to(x.dtype)
        o = torch.einsum("bhts,bsr->bhtr", p, c)
        o = torch.einsum("bhtr,hdr->bthd", o, w[:, self.dn:]).reshape(B, 1, -1)
        return self.wo(o), (c, kr)
