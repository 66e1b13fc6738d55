"""Streaming transformer inside our neural audio codec (in the manner of Mimi).

Every code frame sees itself and earlier frames only.  `context` is the number of frames that a
frame attends to, the frame itself included (as in HF's and Keras's sliding windows), so that
the ring buffer of the streaming build needs exactly `context` slots.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerScale(nn.Module):
    def __init__(self, dim, init=0.01):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), init))

    def forward(self, x):
        return x * self.gamma


def local_causal_mask(n_frames, context, device=None):
    """Bool [n, n]; True = may attend.  Each row has at most `context` True entries."""
    t = torch.arange(n_frames, device=device)
    delta = t[:, None] - t[None, :]
    return (delta >= 0) & (delta <= context)


class StreamingSelfAttention(nn.Module):
    def __init__(self, dim, n_heads, context):
        super().__init__()
        self.n_heads, self.context = n_heads, context
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (z.view(B, T, self.n_heads, -1).transpose(1, 2) for z in (q, k, v))
        mask = local_causal_mask(T, self.context, x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, D))


class StreamingLayer(nn.Module):
    def __init__(self, dim, n_heads, context, ff_mult=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = StreamingSelfAttention(dim, n_heads, context)
        self.ls1, self.ls2 = LayerScale(dim), LayerScale(dim)
        self.ff = nn.Sequential(nn.Linear(dim, ff_mult * dim, bias=False), nn.GELU(),
                                nn.Linear(ff_mult * dim, dim, bias=False))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.ff(self.norm2(x)))


class CodecBottleneck(nn.Module):
    def __init__(self, channels=512, dim=512, depth=8, n_heads=8, context=250):
        super().__init__()
        self.inp = nn.Conv1d(channels, dim, 1)
        self.layers = nn.ModuleList(StreamingLayer(dim, n_heads, context) for _ in range(depth))
        self.out = nn.Conv1d(dim, channels, 1)

    def forward(self, z):
        x = self.inp(z).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.transpose(1, 2))
