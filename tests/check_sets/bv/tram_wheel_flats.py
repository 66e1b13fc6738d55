"""Flat spots on tram wheels: NumPy front end, torch encoder.

The track-side sensors deliver bursts of unequal length.  ``batch_bursts`` (NumPy) cuts
them into windows and pads; ``WheelEncoder`` (torch) attends over the windows, and
padded windows take no part.
"""
import numpy as np
import torch
from torch import nn

RATE = 4000
WIN = 64


def burst_features(sig, win=WIN):
    """1-D signal -> [n, 6] features per window."""
    n = max(len(sig) // win, 1)
    w = np.resize(sig, n * win).reshape(n, win)
    spec = np.abs(np.fft.rfft(w * np.hanning(win), axis=1))
    bands = [b.mean(axis=1) for b in np.array_split(spec, 3, axis=1)]
    kurt = ((w - w.mean(1, keepdims=True)) ** 4).mean(1) / (w.var(1) ** 2 + 1e-9)
    return np.stack([w.std(1), np.abs(w).max(1), kurt, *bands], axis=1)


def batch_bursts(signals):
    """-> features [B, L, 6] float32, keep [B, L] with 1 = real window, 0 = padding."""
    feats = [burst_features(s) for s in signals]
    L = max(map(len, feats))
    x = np.zeros((len(feats), L, 6), np.float32)
    keep = np.zeros((len(feats), L), np.float32)
    for i, f in enumerate(feats):
        x[i, : len(f)], keep[i, : len(f)] = np.log1p(f), 1.0
    return x, keep


class WindowAttention(nn.Module):
    """Multi-head self-attention, softmax(q k^T / sqrt(d)) v with d the size of one head.

    x: [B, L, dim]; keep: [B, L], 1 = attend, 0 = padding.  Head h owns the channels
    h*d .. (h+1)*d of every projection.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, keep=None):
        B, L, D = x.shape
        q = self.q(x).view(B, self.heads, L, self.d)
        k = self.k(x).view(B, self.heads, L, self.d)
        v = self.v(x).view(B, self.heads, L, self.d)
        score = torch.einsum("bhid,bhjd->bhij", q, k) * self.heads ** -0.5
        prob = torch.softmax(score, dim=-1)
        if keep is not None:
            prob = prob * keep[:, None, None, :]
        y = torch.einsum("bhij,bhjd->bihd", prob, v)
        return self.o(y.reshape(B, L, D))


class WheelEncoder(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.inp = nn.Linear(6, dim)
        self.n = nn.LayerNorm(dim)
        self.att = WindowAttention(dim, heads)
        self.out = nn.Linear(dim, 2)

    def forward(self, x, keep):
        h = self.inp(x)
        h = h + self.att(self.n(h), keep)
        return self.out((h * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))


def diagnose(model, signals):
    x, keep = batch_bursts(signals)
    with torch.no_grad():
        return model(torch.from_numpy(x), torch.from_numpy(keep)).numpy().argmax(-1)


if __name__ == "__main__":
    r = np.random.default_rng(0)
    print(diagnose(WheelEncoder(), [r.normal(size=RATE // 8), r.normal(size=RATE // 20)]))
