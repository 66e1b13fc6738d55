"""Streaming model for spacecraft telemetry. Frames arrive in chunks; the cache carries the past."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class StreamAttention(nn.Module):
    """Causal attention with rotary embeddings and a key/value cache.

    Feeding a sequence in chunks gives the same result as feeding it at once.
    Keys are stored after the rotation.
    """

    def __init__(self, dim=32, heads=4, theta=10000.0):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        inv = theta ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("inv_freq", inv, persistent=False)

    def rope(self, q, k, start):
        n = q.size(-2)
        pos = torch.arange(start, start + n, device=q.device).float()
        ang = torch.outer(pos, self.inv_freq)
        emb = torch.cat((ang, ang), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    def forward(self, x, cache=None):
        b, n, c = x.shape
        q, k, v = (
            t.view(b, n, self.heads, self.hd).transpose(1, 2) for t in self.wqkv(x).chunk(3, dim=-1)
        )
        q, k = self.rope(q, k, 0)
        if cache is not None:
            k = torch.cat((cache["k"], k), dim=2)
            v = torch.cat((cache["v"], v), dim=2)
        past = k.size(2) - n
        mask = torch.ones(n, k.size(2), dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, n, c)), {"k": k, "v": v}


class TelemetryModel(nn.Module):
    """frames (B, n, channels) -> prediction of the following frame at each step"""

    def __init__(self, channels=6, dim=32, heads=4, layers=2):
        super().__init__()
        self.inp = nn.Linear(channels, dim)
        self.layers = nn.ModuleList([StreamAttention(dim, heads) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.out = nn.Linear(dim, channels)

    def forward(self, frames, caches=None):
        x = self.inp(frames)
        new = []
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms)):
            y, c = layer(norm(x), caches[i] if caches is not None else None)
            x = x + y
            new.append(c)
        return self.out(x), new
