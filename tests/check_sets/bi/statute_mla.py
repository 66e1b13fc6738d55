"""Latent attention for long statutes (after DeepSeek-V2's MLA).

Per token the cache keeps one latent c (rank r) and one rotary key (shared by the
heads).  In decoding W_uk is absorbed into the query and W_uv is applied after the sum,
so that the latent is never expanded over the whole text.
"""
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn as nn


class Latents(NamedTuple):
    c: torch.Tensor       # (B, S, r)
    kr: torch.Tensor      # (B, S, dr)

    @property
    def length(self):
        return self.c.shape[1]


def rotary(x, pos):
    """x (..., L, dr), pairs (i, i + dr/2)."""
    half = x.shape[-1] // 2
    f = 10000.0 ** (-torch.arange(half, device=x.device).float() / half)
    a = pos[:, None].float() * f
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * a.cos() - x2 * a.sin(), x2 * a.cos() + x1 * a.sin()], dim=-1)


class StatuteMLA(nn.Module):
    def __init__(self, dim=64, heads=4, rank=24, d_nope=12, d_rope=8, d_v=16):
        super().__init__()
        self.heads, self.dn, self.dr, self.dv = heads, d_nope, d_rope, d_v
        self.w_q = nn.Linear(dim, heads * (d_nope + d_rope), bias=False)
        self.w_down = nn.Linear(dim, rank + d_rope, bias=False)
        self.c_norm = nn.RMSNorm(rank, eps=1e-6)
        self.w_uk = nn.Parameter(torch.randn(heads, d_nope, rank) * rank ** -0.5)
        self.w_uv = nn.Parameter(torch.randn(heads, d_v, rank) * rank ** -0.5)
        self.w_o = nn.Linear(heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def forward(
        self, x: torch.Tensor, past: Optional[Latents] = None
    ) -> Tuple[torch.Tensor, Latents]:
        """x (B, L, dim) follows the ``past``; causal."""
        B, L, _ = x.shape
        p0 = past.length if past is not None else 0
        pos = torch.arange(p0, p0 + L, device=x.device)

        q = self.w_q(x).view(B, L, self.heads, self.dn + self.dr).transpose(1, 2)
        q_n, q_r = q.split([self.dn, self.dr], dim=-1)
        q_r = rotary(q_r, pos)

        c, kr = self.w_down(x).split([self.w_uk.shape[-1], self.dr], dim=-1)
        c, kr = self.c_norm(c), rotary(kr, pos)
        if past is not None:
            c, kr = torch.cat([past.c, c], 1), torch.cat([past.kr, kr], 1)

        q_c = torch.einsum("bhln,hnr->bhlr", q_n, self.w_uk)
        s = torch.einsum("bhlr,bsr->bhls", q_c, c) + torch.einsum("bhld,bsd->bhls", q_r, kr)
        s = s * self.scale
        future = torch.arange(c.shape[1], device=x.device)[None, :] > pos[:, None]
        p = s.masked_fill(future, float("-inf")).softmax(-1)

        y = torch.einsum("bhls,bsr->bhlr", p, c)
        y = torch.einsum("bhlr,hvr->blhv", y, self.w_uv)
        return self.w_o(y.flatten(2)), Latents(c, kr)


def read_articles(layer, pieces):
    """Read a statute article by article; returns the outputs joined."""
    past, outs = None, []
    for x in pieces:
        y, past = layer(x, past)
        outs.append(y)
    return torch.cat(outs, 1)
