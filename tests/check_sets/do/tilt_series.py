"""Cryo-ET: attention over the tilt images of one particle, with capped logits.

feats (B, K, D)  features of K tilts; ok (B, K) bool: True = the tilt is usable
(at least one per particle).

logits = cap * tanh( q k^T / sqrt(d_head) / cap ), then unusable tilts are removed,
then softmax over the tilts.  With cap <= 0 there is no capping.
Return: particle feature (B, D) = mean over the usable tilts of the attended features.
"""
import torch
import torch.nn as nn


class TiltFusion(nn.Module):
    def __init__(self, dim, heads=2, cap=2.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.in_proj = nn.Linear(dim, dim * 3, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def logits(self, q, k, ok):
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[1] ** 0.5
        bias = torch.zeros_like(ok, dtype=s.dtype).masked_fill(~ok, -1e4)
        s = s + bias[:, None, None, :]
        if self.cap > 0:
            s = self.cap * torch.tanh(s / self.cap)
        return s

    def forward(self, feats, ok):
        b, n, _ = feats.shape
        q, k, v = (t.view(b, n, self.heads, -1) for t in self.in_proj(feats).chunk(3, -1))
        w = self.logits(q, k, ok).softmax(-1)
        y = self.out_proj(torch.einsum("bhqk,bkhd->bqhd", w, v).reshape(b, n, -1))
        m = ok.unsqueeze(-1).to(y.dtype)
        return (y * m).sum(1) / m.sum(1)
