"""Beam search for the OCR model: incremental decoder self-attention.

Usage: att.start(); then for every step att.step(x); after the beams were re-ranked
att.reorder(parents), so that row i continues the hypothesis parents[i].
"""
import torch
import torch.nn as nn


class BeamSelfAttention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.start()

    def start(self):
        self.keys = None
        self.values = None

    def step(self, x):
        """x (beams, dim): newest token of each beam -> (beams, dim)"""
        q, k, v = (t.view(len(x), self.heads, 1, self.hd) for t in self.in_proj(x).chunk(3, dim=-1))
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        w = torch.softmax((q * self.hd ** -0.5) @ self.keys.transpose(2, 3), dim=-1)
        return self.out_proj((w @ self.values).reshape(len(x), -1))

    def reorder(self, parents):
        self.keys = self.keys.index_select(0, parents)

    def forward(self, x):
        """Training: x (B, T, dim), causal."""
        b, t, e = x.shape
        q, k, v = (z.view(b, t, self.heads, self.hd).transpose(1, 2) for z in self.in_proj(x).chunk(3, dim=-1))
        s = (q * self.hd ** -0.5) @ k.transpose(2, 3)
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        return self.out_proj((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, e))


class OCRDecoder(nn.Module):
    def __init__(self, chars=40, dim=24):
        super().__init__()
        self.emb = nn.Embedding(chars, dim)
        self.att = BeamSelfAttention(dim)
        self.out = nn.Linear(dim, chars)

    @torch.no_grad()
    def beam(self, bos, width=3, steps=5):
        self.att.start()
        seq = torch.full((width, 1), bos)
        score = torch.tensor([0.0] + [-1e4] * (width - 1))
        for _ in range(steps):
            h = self.emb(seq[:, -1])
            lp = self.out(h + self.att.step(h)).log_softmax(-1) + score[:, None]
            score, flat = lp.flatten().topk(width)
            par, tok = flat // lp.size(1), flat % lp.size(1)
            self.att.reorder(par)
            seq = torch.cat([seq[par], tok[:, None]], 1)
        return seq, score
