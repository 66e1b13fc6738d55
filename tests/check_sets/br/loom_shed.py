"""
loom_shed.py -- pick-by-pick model of hand weaving drafts.

A draft is read as a sequence of picks (rows of cloth); every pick is a token.
The trunk is the usual pre-norm decoder with rotary positions and grouped
key/value heads, cut down so that it fits on the workshop laptop.

Rotary layout: neighbouring channels (0,1), (2,3), ... form one complex number.
"""
import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class DraftArgs:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    n_picks: int = 96          # size of the pick vocabulary
    max_cloth: int = 128       # longest draft
    theta: float = 10000.0
    eps: float = 1e-5


class Rms(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def phasors(head_dim: int, length: int, theta: float) -> torch.Tensor:
    inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    ang = torch.outer(torch.arange(length).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)            # [length, head_dim/2]


def twist(x: torch.Tensor, ph: torch.Tensor) -> torch.Tensor:
    """x [B, T, H, D], ph [T, D/2]."""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * ph[None, :, None, :]).flatten(3).type_as(x)


Warp = Tuple[torch.Tensor, torch.Tensor]


class ShedAttention(nn.Module):
    """Causal self-attention over picks.

    ``warp`` is what an earlier call returned (rotated keys, values); the new
    picks follow it directly and see all of it.
    """

    def __init__(self, a: DraftArgs):
        super().__init__()
        self.h, self.kv = a.n_heads, a.n_kv_heads
        self.d = a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, self.h * self.d, bias=False)
        self.wk = nn.Linear(a.dim, self.kv * self.d, bias=False)
        self.wv = nn.Linear(a.dim, self.kv * self.d, bias=False)
        self.wo = nn.Linear(self.h * self.d, a.dim, bias=False)
        self.register_buffer("ph", phasors(self.d, a.max_cloth, a.theta), persistent=False)

    def forward(self, x: torch.Tensor, warp: Optional[Warp] = None) -> Tuple[torch.Tensor, Warp]:
        B, T, _ = x.shape
        past = 0 if warp is None else warp[0].size(1)
        q = self.wq(x).view(B, T, self.h, self.d)
        k = self.wk(x).view(B, T, self.kv, self.d)
        v = self.wv(x).view(B, T, self.kv, self.d)
        ph = self.ph[past:past + T]
        q, k = twist(q, ph), twist(k, ph)
        if warp is not None:
            k, v = torch.cat([warp[0], k], 1), torch.cat([warp[1], v], 1)
        new_warp = (k, v)

        g = self.h // self.kv
        S = k.size(1)
        kk = k[:, :, :, None].expand(B, S, self.kv, g, self.d).reshape(B, S, self.h, self.d)
        vv = v[:, :, :, None].expand(B, S, self.kv, g, self.d).reshape(B, S, self.h, self.d)
        s = torch.einsum("bthd,bshd->bhts", q, kk) / math.sqrt(self.d)
        future = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(past + 1)
        s = s.masked_fill(future, float("-inf"))
        p = s.float().softmax(-1).type_as(q)
        y = torch.einsum("bhts,bshd->bthd", p, vv).reshape(B, T, -1)
        return self.wo(y), new_warp


class Pick(nn.Module):
    def __init__(self, a: DraftArgs):
        super().__init__()
        self.n1, self.n2 = Rms(a.dim, a.eps), Rms(a.dim, a.eps)
        self.shed = ShedAttention(a)
        self.up, self.gate = (nn.Linear(a.dim, 2 * a.dim, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * a.dim, a.dim, bias=False)

    def forward(self, x, warp=None):
        y, warp = self.shed(self.n1(x), warp)
        x = x + y
        n = self.n2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n)), warp


class Weaver(nn.Module):
    def __init__(self, a: DraftArgs):
        super().__init__()
        self.tok = nn.Embedding(a.n_picks, a.dim)
        self.picks = nn.ModuleList([Pick(a) for _ in range(a.n_layers)])
        self.norm = Rms(a.dim, a.eps)

    def forward(self, ids: torch.Tensor, warps: Optional[List[Warp]] = None):
        x, out = self.tok(ids), []
        for i, p in enumerate(self.picks):
            x, w = p(x, None if warps is None else warps[i])
            out.append(w)
        return self.norm(x) @ self.tok.weight.t(), out
