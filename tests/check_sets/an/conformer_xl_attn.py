# -*- coding: utf-8 -*-
"""Relative-position self attention of the conformer encoder (Transformer-XL style)."""
import math

import torch
from torch import nn


def make_pad_mask(xlens: torch.Tensor, maxlen: int) -> torch.Tensor:
    """(B,) -> (B, maxlen), True on padded frames."""
    return torch.arange(maxlen, device=xlens.device)[None, :] >= xlens[:, None]


class RelPosTable(nn.Module):
    """Rows for distances T-1, T-2, ..., 0, ..., -(T-1) (query index minus key index)."""

    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, T, like):
        dist = torch.arange(T - 1, -T, -1.0, device=like.device)
        w = torch.exp(torch.arange(0, self.d_model, 2.0, device=like.device) * (-math.log(10000.0) / self.d_model))
        a = dist[:, None] * w
        out = torch.zeros(2 * T - 1, self.d_model, device=like.device)
        out[:, 0::2] = a.sin()
        out[:, 1::2] = a.cos()
        return out.to(like.dtype)


class RelMHSA(nn.Module):
    def __init__(self, d_model, n_head, dropout=0.1):
        super().__init__()
        self.h = n_head
        self.dk = d_model // n_head
        self.norm = nn.LayerNorm(d_model)
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.pos = nn.Linear(d_model, d_model, bias=False)
        self.o = nn.Linear(d_model, d_model)
        self.u = nn.Parameter(torch.empty(n_head, self.dk))
        self.w = nn.Parameter(torch.empty(n_head, self.dk))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.w)
        self.table = RelPosTable(d_model)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        """(B,H,T,2T-1) -> (B,H,T,T): column j of row i becomes the entry of distance i-j."""
        B, H, T, P = x.shape
        x = nn.functional.pad(x, (1, 0))
        x = x.view(B, H, P + 1, T)[:, :, 1:].reshape(B, H, T, P)
        return x[..., :T]

    def forward(self, x, xlens=None):
        B, T, D = x.shape
        res = x
        x = self.norm(x)
        q = self.q(x).view(B, T, self.h, self.dk)
        k = self.k(x).view(B, T, self.h, self.dk).permute(0, 2, 3, 1)
        v = self.v(x).view(B, T, self.h, self.dk).transpose(1, 2)
        r = self.pos(self.table(T, x)).view(2 * T - 1, self.h, self.dk).permute(1, 2, 0)

        ac = (q + self.u).transpose(1, 2) @ k
        bd = self.rel_shift((q + self.w).transpose(1, 2) @ r)
        score = (ac + bd) / math.sqrt(self.dk)

        if xlens is not None:
            pad = make_pad_mask(xlens, T)[:, None, None, :]
            score = score.masked_fill(pad, -float("inf"))
            p = torch.softmax(score, -1).masked_fill(pad, 0.0)
        else:
            p = torch.softmax(score, -1)
        y = (self.drop(p) @ v).transpose(1, 2).reshape(B, T, D)
        return res + self.drop(self.o(y))
