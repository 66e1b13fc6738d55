"""Melody continuation with learned relative positions (Music Transformer style).

The logit of step i looking back at step j is

    q_i . (k_j + E[i - j]) / sqrt(d)        for j <= i

where E holds one vector per distance 0 .. max_len - 1, per head.  The
[T, T] matrix of q_i . E[i - j] is made with the usual pad-and-reshape "skew" so
that no [T, T, d] tensor is ever built.
"""
import torch
import torch.nn as nn


class RelativeMelodyAttention(nn.Module):
    def __init__(self, d_model, n_heads, max_len=128):
        super().__init__()
        self.h = n_heads
        self.dh = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.dist = nn.Parameter(torch.randn(n_heads, max_len, self.dh) * 0.05)

    def _split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.h, self.dh).permute(0, 2, 1, 3)

    @staticmethod
    def _skew(m):
        # m[..., i, c] is for distance T-1-c; result[..., i, j] is for distance i-j
        b, h, t, _ = m.shape
        m = nn.functional.pad(m, (1, 0))
        return m.reshape(b, h, t + 1, t)[:, :, 1:, :]

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
        table = self.dist[:, :t].flip(1)
        rel = self._skew(torch.einsum("bhid,hcd->bhic", q, table))
        logits = (torch.einsum("bhid,bhjd->bhij", q, k) + rel) * self.dh ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        p = logits.masked_fill(future, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bihd", p, v)
        return self.wo(y.reshape(b, t, self.h * self.dh))


class MelodyModel(nn.Module):
    """Pitch tokens in, logits of the next pitch out."""

    def __init__(self, n_pitches=90, d_model=32, n_heads=4, n_layers=2, max_len=128):
        super().__init__()
        self.emb = nn.Embedding(n_pitches, d_model)
        self.att = nn.ModuleList(
            [RelativeMelodyAttention(d_model, n_heads, max_len) for _ in range(n_layers)]
        )
        self.nrm = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(n_layers)])
        self.head = nn.Linear(d_model, n_pitches)

    def forward(self, notes):
        x = self.emb(notes)
        for norm, att in zip(self.nrm, self.att):
            x = x + att(norm(x))
        return self.head(x)
