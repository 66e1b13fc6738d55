"""Self-attention of our streaming Conformer: relative positions + chunk mask.

Scores follow Transformer-XL:  ((q_i + u).k_j + (q_i + v).r_{i-j}) / sqrt(d_head)
A frame sees its whole chunk and `left` chunks before it, nothing after its chunk.
"""
import math

import torch
import torch.nn as nn


def sinusoid(T, dim):
    """rows for distances T-1, T-2, ..., -(T-1)"""
    pos = torch.arange(T - 1, -T, -1.0)[:, None]
    inv = torch.exp(torch.arange(0, dim, 2.0) * (-math.log(1e4) / dim))
    pe = torch.empty(2 * T - 1, dim)
    pe[:, 0::2] = torch.sin(pos * inv)
    pe[:, 1::2] = torch.cos(pos * inv)
    return pe


def chunk_mask(T, size, left):
    c = torch.arange(T) // size
    gap = c[:, None] - c[None, :]
    return (gap >= 0) & (gap <= left)


class RelPosAttn(nn.Module):
    def __init__(self, dim=32, heads=4, chunk=4, left=1, p=0.1):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.chunk, self.left = chunk, left
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.r = nn.Linear(dim, dim, bias=False)
        self.u = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.w = nn.Parameter(torch.randn(heads, self.d) * 0.1)
        self.drop = nn.Dropout(p)

    @staticmethod
    def shift(x):
        # (B, H, T, 2T-1) by offset -> (B, H, T, T) by key index
        b, h, t, n = x.shape
        x = nn.functional.pad(x, (1, 0)).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., :t]

    def forward(self, x, lengths=None):
        """x: (B, T, dim); lengths: (B,) number of valid frames. -> (B, T, dim)
        Rows past the length are padding and come back as whatever `o` gives for zero."""
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.h, self.d)
        k = self.k(x).view(B, T, self.h, self.d).permute(0, 2, 3, 1)
        v = self.v(x).view(B, T, self.h, self.d).transpose(1, 2)
        r = self.r(sinusoid(T, self.h * self.d).to(x)).view(-1, self.h, self.d).permute(1, 2, 0)
        content = (q + self.u).transpose(1, 2) @ k
        position = self.shift((q + self.w).transpose(1, 2) @ r)
        s = (content + position) / math.sqrt(self.d)
        see = chunk_mask(T, self.chunk, self.left).to(x.device)[None]
        if lengths is not None:
            ok = torch.arange(T, device=x.device) < lengths[:, None]
            see = see & ok[:, None, :] & ok[:, :, None]
        s = s.masked_fill(~see[:, None], torch.finfo(s.dtype).min)
        a = s.softmax(-1).masked_fill(~see[:, None], 0.0)
        return self.o((self.drop(a) @ v).transpose(1, 2).reshape(B, T, -1))
