"""Speech enhancement: masks for a 257-bin STFT from a small causal band transformer.

`lookback` counts frames including the present one: with lookback=3 frame t hears t-2, t-1 and t.
The latency budget of the hearing aid was measured with that meaning.
"""
import torch
from torch import nn


def band_mask(n_frames, lookback, device=None):
    """bool (n, n), True where frame (row) hears frame (column)."""
    r = torch.arange(n_frames, device=device)
    gap = r.unsqueeze(1) - r.unsqueeze(0)
    return gap.ge(0) & gap.le(lookback)


class BandAttention(nn.Module):
    def __init__(self, feat, heads, lookback):
        super().__init__()
        self.heads = heads
        self.lookback = lookback
        self.lin_q = nn.Linear(feat, feat)
        self.lin_k = nn.Linear(feat, feat)
        self.lin_v = nn.Linear(feat, feat)
        self.lin_o = nn.Linear(feat, feat)

    def forward(self, frames):
        n, t, f = frames.shape
        shape = (n, t, self.heads, f // self.heads)
        q = self.lin_q(frames).view(shape).permute(0, 2, 1, 3)
        k = self.lin_k(frames).view(shape).permute(0, 2, 3, 1)
        v = self.lin_v(frames).view(shape).permute(0, 2, 1, 3)
        e = torch.matmul(q, k) / (f // self.heads) ** 0.5
        e = e.masked_fill(~band_mask(t, self.lookback, frames.device), float("-inf"))
        a = torch.softmax(e, dim=-1)
        z = torch.matmul(a, v).permute(0, 2, 1, 3).reshape(n, t, f)
        return self.lin_o(z)


class Enhancer(nn.Module):
    def __init__(self, bins=257, feat=64, heads=4, lookback=12, layers=2):
        super().__init__()
        self.inp = nn.Linear(bins, feat)
        self.att = nn.ModuleList([BandAttention(feat, heads, lookback) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(feat) for _ in range(layers)])
        self.out = nn.Linear(feat, bins)

    def forward(self, mag):
        x = self.inp(torch.log1p(mag))
        for ln, att in zip(self.ln, self.att):
            x = x + att(ln(x))
        return mag * torch.sigmoid(self.out(x))


def si_sdr(est, ref, eps=1e-8):
    a = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + eps)
    t = a * ref
    return 10 * torch.log10((t.pow(2).sum(-1) + eps) / ((est - t).pow(2).sum(-1) + eps))
