"""Relative multi-head attention of the conformer encoder (Transformer-XL style)."""
import math
import torch
import torch.nn as nn


class RelPositions(nn.Module):
    """Sinusoids for the offsets T-1 ... 0 ... -(T-1), [2T-1, D], largest offset first."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, t):
        off = torch.arange(t - 1, -t, -1, dtype=self.inv.dtype, device=self.inv.device)
        ang = off[:, None] * self.inv[None]
        return torch.stack([ang.sin(), ang.cos()], dim=-1).flatten(1)


class RelMHA(nn.Module):
    """x [B,T,D], lengths [B] (all >= 1).  score_ij = ((q_i + u) k_j + (q_i + w) r_{i-j}) / sqrt(d).

    Frames beyond the length of an utterance take no weight as keys; what comes
    out at these frames is cut away later.
    """

    def __init__(self, dim, heads, p_drop=0.1):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.lin_q, self.lin_k, self.lin_v = (nn.Linear(dim, dim) for _ in range(3))
        self.lin_r = nn.Linear(dim, dim, bias=False)
        self.lin_o = nn.Linear(dim, dim)
        self.u = nn.Parameter(torch.empty(heads, self.d))
        self.w = nn.Parameter(torch.empty(heads, self.d))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.w)
        self.pos = RelPositions(dim)
        self.drop = nn.Dropout(p_drop)

    @staticmethod
    def shift(x):
        b, h, t, n = x.shape                       # n = 2t - 1
        zero = x.new_zeros(b, h, t, 1)
        x = torch.cat([zero, x], dim=-1).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., :t]

    def forward(self, x, lengths):
        b, t, _ = x.shape
        q = self.lin_q(x).view(b, t, self.h, self.d)
        k = self.lin_k(x).view(b, t, self.h, self.d).permute(0, 2, 3, 1)
        v = self.lin_v(x).view(b, t, self.h, self.d).transpose(1, 2)
        r = self.lin_r(self.pos(t).to(x.dtype)).view(-1, self.h, self.d).permute(1, 2, 0)
        ac = (q + self.u).transpose(1, 2) @ k
        bd = self.shift((q + self.w).transpose(1, 2) @ r)
        s = (ac + bd) / math.sqrt(self.d)
        pad = torch.arange(t, device=x.device)[None] >= lengths[:, None]
        s = s.masked_fill(pad[:, None, None], torch.finfo(s.dtype).min)
        a = self.drop(s.softmax(dim=-1))
        return self.lin_o((a @ v).transpose(1, 2).reshape(b, t, -1))


class ConvModule(nn.Module):
    def __init__(self, dim, k=7):
        super().__init__()
        self.pw1, self.pw2 = nn.Conv1d(dim, 2 * dim, 1), nn.Conv1d(dim, dim, 1)
        self.dw = nn.Conv1d(dim, dim, k, padding=k // 2, groups=dim)
        self.bn = nn.BatchNorm1d(dim)

    def forward(self, x):
        y = nn.functional.glu(self.pw1(x.transpose(1, 2)), dim=1)
        return self.pw2(nn.functional.silu(self.bn(self.dw(y)))).transpose(1, 2)
