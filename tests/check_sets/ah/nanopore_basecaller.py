"""Streaming nanopore basecaller.

The encoder must run with bounded memory on the sequencer, so attention is causal and local: a frame
attends to `window` frames in total, itself and the window-1 frames just before it. The ring
buffer on the device holds exactly `window` keys.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class LocalCausalAttention(nn.Module):
    def __init__(self, d_model, nhead, window, bias=False):
        super().__init__()
        self.nhead, self.head_dim, self.window = nhead, d_model // nhead, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def sliding_mask(self, T, device):
        i = torch.arange(T, device=device)
        dist = i[:, None] - i[None, :]
        return (dist >= 0) & (dist <= self.window)

    def forward(self, x):
        N, T, D = x.shape
        q, k, v = self.Wqkv(x).view(N, T, 3, self.nhead, self.head_dim).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~self.sliding_mask(T, x.device), float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out_proj(y.permute(0, 2, 1, 3).reshape(N, T, D))


class GatedMlp(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 2 * hidden, bias=False), nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        y, gate = self.fc1(x).chunk(2, -1)
        return self.fc2(F.silu(gate) * y)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w


class EncoderLayer(nn.Module):
    def __init__(self, d, nhead, window, alpha):
        super().__init__()
        self.att = LocalCausalAttention(d, nhead, window)
        self.ff = GatedMlp(d, 2 * d)
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.register_buffer("alpha", torch.tensor(alpha))

    def forward(self, x):
        x = self.n1(self.att(x) + self.alpha * x)
        return self.n2(self.ff(x) + self.alpha * x)


class Basecaller(nn.Module):
    def __init__(self, d=64, nhead=4, window=32, depth=3, state_len=3):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(1, 16, 5, padding=2), nn.SiLU(), nn.Conv1d(16, d, 9, stride=3, padding=4), nn.SiLU()
        )
        a = round((2 * depth) ** 0.25, 4)
        self.layers = nn.Sequential(*[EncoderLayer(d, nhead, window, a) for _ in range(depth)])
        self.crf = nn.Linear(d, 4 ** state_len * 5)

    def forward(self, signal):
        x = self.stem(signal.unsqueeze(1)).transpose(1, 2)
        return 5.0 * torch.tanh(self.crf(self.layers(x)))


def med_mad(x, factor=1.4826):
    med = x.median(-1, keepdim=True).values
    mad = (x - med).abs().median(-1, keepdim=True).values * factor
    return (x - med) / mad.clamp(min=1e-6)
