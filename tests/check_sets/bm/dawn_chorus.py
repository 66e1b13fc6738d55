"""Who sings when: per-frame species activity in dawn chorus recordings.

Streaming model, so every frame looks back only, over a limited span.
"""
import math

import torch
import torch.nn as nn


def mel_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(n_mels, n_fft, sr, lo=800.0, hi=11000.0):
    hz2mel = lambda f: 2595.0 * math.log10(1.0 + f / 700.0)
    pts = mel_hz(torch.linspace(hz2mel(lo), hz2mel(hi), n_mels + 2))
    f = torch.linspace(0, sr / 2, n_fft // 2 + 1)
    up = (f[None] - pts[:-2, None]) / (pts[1:-1] - pts[:-2])[:, None]
    down = (pts[2:, None] - f[None]) / (pts[2:] - pts[1:-1])[:, None]
    return torch.minimum(up, down).clamp_min(0)


class LookBack(nn.Module):
    """Windowed causal attention.

    Parameters
    ----------
    span : int
        Number of frames a frame reads, the frame itself included.
    p : float
        Dropout on the weights that are applied to the values.

    Returns
    -------
    y : (B, T, dim)
    w : (B, H, T, T)
        The attention distribution; each row sums to one.  Logged as an image
        during training, and used for the alignment penalty.
    """

    def __init__(self, dim, heads, span, p=0.1):
        super().__init__()
        self.heads, self.span = heads, span
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_y = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        B, T, D = x.shape
        shape = (B, T, self.heads, D // self.heads)
        q = self.to_q(x).view(shape).transpose(1, 2)
        k = self.to_k(x).view(shape).transpose(1, 2)
        v = self.to_v(x).view(shape).transpose(1, 2)
        t = torch.arange(T, device=x.device)
        lag = t[:, None] - t[None, :]
        readable = (lag >= 0) & (lag <= self.span)
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(shape[-1])
        w = w.masked_fill(~readable, float("-inf"))
        w = self.drop(torch.softmax(w, dim=-1))
        y = torch.matmul(w, v).transpose(1, 2).reshape(B, T, D)
        return self.to_y(y), w


def alignment_penalty(w, onset):
    """Weight that a frame puts on frames before the onset of its song.  onset [B, T] int."""
    j = torch.arange(w.shape[-1], device=w.device)
    before = j[None, None, :] < onset[:, :, None]
    return (w * before[:, None]).sum(-1).mean()


class Chorus(nn.Module):
    def __init__(self, n_species=30, n_mels=40, dim=48, span=64, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_mels, dim)
        self.att = nn.ModuleList(LookBack(dim, 4, span) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(depth)
        )
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.out = nn.Linear(dim, n_species)

    def forward(self, mel):
        x, maps = self.inp(mel), []
        for i, (a, f) in enumerate(zip(self.att, self.ffn)):
            y, w = a(self.n[2 * i](x))
            x = x + y
            x = x + f(self.n[2 * i + 1](x))
            maps.append(w)
        return self.out(x), maps
