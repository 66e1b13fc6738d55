"""Forecast of my solar panels with a PatchTST-like encoder (channel independent).

    series (B, L, M)  ->  forecast (B, H, M)

Each of the M channels is a series of its own.  It is normalised (RevIN without affine),
cut in patches of length P with stride S, and the patches are the tokens.  All
patches see one another.

As in the original code, attention is "residual" (RealFormer): the raw scores of layer l
are q k^T / sqrt(d_head) + scores of layer l-1, and the softmax over the key
patches is taken of this sum.  The first layer has no predecessor.
"""
import torch
import torch.nn as nn


class ResAtt(nn.Module):
    """x (Z, N, D), prev None or (Z, h, N, N) -> (Z, N, D), raw scores (Z, h, N, N)."""

    def __init__(self, D, h):
        super().__init__()
        self.h, self.dk = h, D // h
        self.to_q = nn.Linear(D, D)
        self.to_k = nn.Linear(D, D)
        self.to_v = nn.Linear(D, D)
        self.to_o = nn.Linear(D, D)

    def forward(self, x, prev=None):
        Z, N, D = x.shape
        q = self.to_q(x).view(Z, N, self.h, self.dk).permute(0, 2, 1, 3)
        k_t = self.to_k(x).view(Z, N, self.h, self.dk).permute(0, 2, 3, 1)
        v = self.to_v(x).view(Z, N, self.h, self.dk).permute(0, 2, 1, 3)
        raw = q @ k_t / self.dk**0.5
        if prev is not None:
            raw = raw + prev
        y = torch.softmax(raw, dim=-1) @ v
        return self.to_o(y.permute(0, 2, 1, 3).reshape(Z, N, D)), raw


class PatchSolar(nn.Module):
    def __init__(self, L=96, H=24, P=16, S=8, D=32, h=4, layers=2):
        super().__init__()
        self.P, self.S = P, S
        N = (L - P) // S + 1
        self.emb = nn.Linear(P, D)
        self.pos = nn.Parameter(torch.randn(N, D) * 0.02)
        self.att = nn.ModuleList(ResAtt(D, h) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(D) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(layers)
        )
        self.head = nn.Linear(N * D, H)

    def forward(self, series):
        B, L, M = series.shape
        mu = series.mean(1, keepdim=True)
        sd = series.std(1, keepdim=True, unbiased=False) + 1e-5
        z = ((series - mu) / sd).transpose(1, 2).reshape(B * M, L)
        x = self.emb(z.unfold(-1, self.P, self.S)) + self.pos
        prev = None
        for att, n1, ff in zip(self.att, self.n1, self.ff):
            y, prev = att(x, prev)
            x = n1(x + y)
            x = x + ff(x)
        out = self.head(x.flatten(1)).view(B, M, -1).transpose(1, 2)
        return out * sd + mu
