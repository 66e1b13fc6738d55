"""Temporal Fusion Transformer (Lim et al. 2021): interpretable multi-head attention.

Values are shared by all heads, the heads are averaged: H~ = mean_h A(Q W_Q^h, K W_K^h) V W_V
"""
import torch
import torch.nn as nn


class SDPA(nn.Module):
    def __init__(self, do=0.1):
        super().__init__()
        self.do = nn.Dropout(do)
        self.sm = nn.Softmax(dim=1)

    def forward(self, q, k, v, m=None):
        a = torch.bmm(q, k.permute(0, 2, 1)) / k.size(-1) ** 0.5
        if m is not None:
            a = a.masked_fill(m, -1e9)
        a = self.sm(a)
        return torch.bmm(self.do(a), v), a


class IMHA(nn.Module):
    """q, k, v: B x T x D. m: T x T or B x T x T, True = may not look (the decoder gives the future here).

    Returns B x T x D and the mean attention, B x T x T, row = query.
    """

    def __init__(self, nh=4, D=32, do=0.1):
        super().__init__()
        self.nh = nh
        dk = D // nh
        self.vl = nn.Linear(D, dk, bias=False)
        self.ql = nn.ModuleList([nn.Linear(D, dk, bias=False) for _ in range(nh)])
        self.kl = nn.ModuleList([nn.Linear(D, dk, bias=False) for _ in range(nh)])
        self.att = SDPA(do)
        self.ol = nn.Linear(dk, D, bias=False)
        self.do = nn.Dropout(do)

    def forward(self, q, k, v, m=None):
        if m is not None and m.dim() == 2:
            m = m.unsqueeze(0)
        vs = self.vl(v)
        hs, ats = [], []
        for i in range(self.nh):
            h, a = self.att(self.ql[i](q), self.kl[i](k), vs, m)
            hs.append(self.do(h))
            ats.append(a)
        h = torch.stack(hs).mean(0)
        a = torch.stack(ats).mean(0)
        return self.do(self.ol(h)), a
