"""Conformer encoder for speech recognition with relative positions (Transformer-XL style).

Score of query i and key j, per head:

    ( (q_i + u) . k_j  +  (q_i + v) . p_{i-j} ) / sqrt(d)

u and v are learned biases, p_r is the projected sinusoid of the distance r = i - j.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelPositions(nn.Module):
    """Table for the distances T-1, T-2, ..., 0, ..., -(T-1), in this order: (1, 2T-1, dim)."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.arange(0, dim, 2) * -(math.log(10000.0) / dim)))
        self.dim = dim

    def forward(self, T):
        dist = torch.arange(T - 1, -T, -1, device=self.freq.device, dtype=self.freq.dtype)
        ang = dist[:, None] * self.freq
        pe = torch.zeros(2 * T - 1, self.dim, device=ang.device)
        pe[:, 0::2], pe[:, 1::2] = ang.sin(), ang.cos()
        return pe[None]


class RelPosAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_pos = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(dim, dim)
        self.bias_u = nn.Parameter(torch.empty(heads, self.d))
        self.bias_v = nn.Parameter(torch.empty(heads, self.d))
        nn.init.xavier_uniform_(self.bias_u)
        nn.init.xavier_uniform_(self.bias_v)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        """(B, h, T, 2T-1), last axis by distance -> (B, h, T, T), last axis by key."""
        b, h, t, n = x.shape
        x = F.pad(x, (1, 0)).view(b, h, n + 1, t)
        x = x[:, :, 1:].reshape(b, h, t, n)
        return x[..., n - t:]

    def forward(self, x, pos, pad=None):
        """x (B, T, dim); pos from RelPositions; pad (B, T) bool, True at padding."""
        b, t, _ = x.shape
        q = self.linear_q(x).view(b, t, self.h, self.d)
        k = self.linear_k(x).view(b, t, self.h, self.d).transpose(1, 2)
        v = self.linear_v(x).view(b, t, self.h, self.d).transpose(1, 2)
        p = self.linear_pos(pos).view(1, -1, self.h, self.d).transpose(1, 2)
        ac = (q + self.bias_u).transpose(1, 2) @ k.transpose(-2, -1)
        bd = self.rel_shift((q + self.bias_v).transpose(1, 2) @ p.transpose(-2, -1))
        scores = (ac + bd) / math.sqrt(self.d)
        if pad is not None:
            scores = scores.masked_fill(pad[:, None, None], torch.finfo(scores.dtype).min)
        attn = self.dropout(scores.softmax(-1))
        return self.linear_out((attn @ v).transpose(1, 2).reshape(b, t, -1))


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=7):
        super().__init__()
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.BatchNorm1d(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x, pad=None):
        x = x.transpose(1, 2)
        if pad is not None:
            x = x.masked_fill(pad[:, None], 0.0)
        x = F.glu(self.pw1(x), dim=1)
        return self.pw2(F.silu(self.bn(self.dw(x)))).transpose(1, 2)


def feed_forward(dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))


class ConformerBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ff1, self.ff2 = feed_forward(dim), feed_forward(dim)
        self.n_att, self.n_conv, self.n_out = (nn.LayerNorm(dim) for _ in range(3))
        self.att, self.conv = RelPosAttention(dim, heads), ConvModule(dim)

    def forward(self, x, pos, pad):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.n_att(x), pos, pad)
        x = x + self.conv(self.n_conv(x), pad)
        return self.n_out(x + 0.5 * self.ff2(x))


class ConformerCTC(nn.Module):
    def __init__(self, mels=40, dim=64, heads=4, depth=2, vocab=30):
        super().__init__()
        self.sub = nn.Conv1d(mels, dim, 3, stride=2, padding=1)
        self.pos = RelPositions(dim)
        self.blocks = nn.ModuleList(ConformerBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, mel, lengths):
        x = F.relu(self.sub(mel.transpose(1, 2))).transpose(1, 2)
        lengths = (lengths + 1) // 2
        pad = torch.arange(x.shape[1], device=x.device)[None] >= lengths[:, None]
        pos = self.pos(x.shape[1])
        for blk in self.blocks:
            x = blk(x, pos, pad)
        return self.head(x).log_softmax(-1), lengths


if __name__ == "__main__":
    net = ConformerCTC().eval()
    out, n = net(torch.randn(2, 50, 40), torch.tensor([50, 33]))
    print(out.shape, n)
