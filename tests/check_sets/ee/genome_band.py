"""Banded self-attention along a chromosome window.

BandReader(d, strands, w):  d features per base, strands = heads, w = half width of the band

forward(seq, n=None)
    seq (B, L, d)    bases in order
    n   (B,) long    number of real bases (rest is padding, at the end); None = all L
returns (B, L, d)

A base reads itself, the w bases before it and the w bases after it: up to 2 w + 1 in
all, fewer at the ends (w = 1: itself and both neighbours). Padding is read by nobody,
and a padded base returns zeros.
Logits over sqrt(d / strands).
"""
import torch
import torch.nn as nn


class BandReader(nn.Module):
    def __init__(self, d, strands, w):
        super().__init__()
        self.strands, self.w = strands, w
        self.to_q = nn.Linear(d, d)
        self.to_kv = nn.Linear(d, 2 * d)
        self.to_out = nn.Linear(d, d)

    def band(self, L, device):
        i = torch.arange(L, device=device)
        gap = i[None, :] - i[:, None]
        return gap.abs() < self.w

    def forward(self, seq, n=None):
        B, L, d = seq.shape
        q = self.to_q(seq).unflatten(2, (self.strands, -1)).transpose(1, 2)
        k, v = (
            t.unflatten(2, (self.strands, -1)).transpose(1, 2)
            for t in self.to_kv(seq).chunk(2, dim=2)
        )
        near = self.band(L, seq.device).expand(B, 1, L, L)
        real = torch.ones(B, L, dtype=torch.bool, device=seq.device)
        if n is not None:
            real = torch.arange(L, device=seq.device) < n[:, None]
            near = near & real[:, None, None, :]
        s = (q @ k.mT) * q.shape[-1] ** -0.5
        s = s.masked_fill(~near, torch.finfo(s.dtype).min)
        y = (s.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.to_out(y) * real.unsqueeze(-1)
