"""Relative position attention of the Conformer encoder.

The position table holds distances T-1, ..., 0, ..., -(T-1) (query minus key), i.e.
2T-1 rows.  ``pad_mask`` (B, T) is True at padded frames.
"""
import math

import torch
from torch import nn


class RelTable(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        inv = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, T):
        dist = torch.arange(T - 1, -T, -1, device=self.inv.device, dtype=self.inv.dtype)
        ang = dist[:, None] * self.inv[None]
        return torch.stack([ang.sin(), ang.cos()], -1).flatten(1)


class RelPosMHA(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.H, self.dh = heads, dim // heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.lin_pos = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.u = nn.Parameter(torch.empty(heads, self.dh))
        self.vb = nn.Parameter(torch.empty(heads, self.dh))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.vb)
        self.table = RelTable(dim)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def skew(x):
        """(B, H, T, 2T-1) -> (B, H, T, T): column j of row i becomes distance i-j."""
        B, H, T, P = x.shape
        x = nn.functional.pad(x, (1, 0)).view(B, H, P + 1, T)
        return x[:, :, 1:].reshape(B, H, T, P)[..., :T]

    def forward(self, x, pad_mask=None):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q = q.view(B, T, self.H, self.dh)
        k = k.view(B, T, self.H, self.dh).transpose(1, 2)
        v = v.view(B, T, self.H, self.dh).transpose(1, 2)
        pos = self.lin_pos(self.table(T).to(x.dtype)).view(-1, self.H, self.dh).transpose(0, 1)
        ac = (q + self.u).transpose(1, 2) @ k.transpose(-2, -1)
        bd = self.skew((q + self.vb).transpose(1, 2) @ pos.transpose(-2, -1))
        s = (ac + bd) / math.sqrt(self.dh)
        if pad_mask is not None:
            s = s.masked_fill(pad_mask[:, None, None, :], torch.finfo(s.dtype).min)
        a = self.drop(torch.softmax(s, dim=-1))
        y = (a @ v).transpose(1, 2).reshape(B, T, D)
        return self.out(y)


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1, self.pw2 = nn.Conv1d(dim, 2 * dim, 1), nn.Conv1d(dim, dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.gn = nn.GroupNorm(1, dim)

    def forward(self, x, pad_mask=None):
        y = nn.functional.glu(self.pw1(self.norm(x).transpose(1, 2)), 1)
        if pad_mask is not None:
            y = y.masked_fill(pad_mask[:, None], 0.0)
        return self.pw2(nn.functional.silu(self.gn(self.dw(y)))).transpose(1, 2)


class ConformerHalf(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att, self.conv = RelPosMHA(dim, heads), ConvModule(dim)

    def forward(self, x, pad_mask=None):
        x = x + self.att(x, pad_mask)
        return x + self.conv(x, pad_mask)
