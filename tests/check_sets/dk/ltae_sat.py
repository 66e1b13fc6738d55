"""Crop type from Sentinel-2 series: lightweight temporal attention encoder (L-TAE).

LTAE(c_in, dim, n_head, d_k)(x, day, clear)
    x      [B, T, c_in]  mean reflectance of the parcel
    day    [B, T] int    day of year
    clear  [B, T] bool   True = acquisition without clouds (at least one per parcel)
Each head has a learned master query of d_k numbers and its own group of dim / n_head
channels of the embedded series:

    a_h = softmax over the clear dates of ( q_h . k_{h,t} / sqrt(d_k) )
    y   = concat_h sum_t a_{h,t} e_{h,t}

returns y' [B, dim] after MLP, and a [B, n_head, T].
"""
import numpy as np
import torch
import torch.nn as nn


def day_code(day, dim, period=1000.0):
    i = torch.arange(dim, device=day.device)
    div = period ** (2 * torch.div(i, 2, rounding_mode="floor") / dim)
    ang = day[..., None] / div
    return torch.where(i % 2 == 0, ang.sin(), ang.cos())


class LTAE(nn.Module):
    def __init__(self, c_in, dim=32, n_head=4, d_k=8):
        super().__init__()
        self.n_head, self.d_k, self.dim = n_head, d_k, dim
        self.inconv = nn.Linear(c_in, dim)
        self.norm = nn.LayerNorm(dim)
        self.Q = nn.Parameter(torch.randn(n_head, d_k) * np.sqrt(2.0 / d_k))
        self.fc_k = nn.Linear(dim, n_head * d_k)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def weights(self, e, clear):
        B, T, _ = e.shape
        k = self.fc_k(e).view(B, T, self.n_head, self.d_k)
        s = torch.einsum("hd,bthd->bht", self.Q, k) / self.d_k ** 0.5
        s = s.masked_fill(~clear[:, None, :], float("-inf"))
        a = torch.softmax(s.flatten(1), dim=-1)
        return a.view(B, self.n_head, T)

    def forward(self, x, day, clear):
        B, T, _ = x.shape
        e = self.norm(self.inconv(x)) + day_code(day, self.dim)
        a = self.weights(e, clear)
        groups = e.view(B, T, self.n_head, -1)
        y = torch.einsum("bht,bthc->bhc", a, groups).reshape(B, self.dim)
        return self.mlp(y), a
