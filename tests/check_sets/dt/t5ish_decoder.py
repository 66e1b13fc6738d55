"""Decoder layer after T5.

Differences from the layer of "Attention is all you need" that are meant:
  * NO 1/sqrt(d) in either attention (T5 folds it into the initialisation);
  * RMSNorm without mean, pre-norm, no biases;
  * self-attention adds a learned bias per head and per bucket of (query - key) distance;
    with near = n_buckets // 2, distances 0 .. near-1 have a bucket each, further ones share buckets up to `far`
    (logarithmic), everything beyond `far` uses the last one. Cross-attention has no bias.

Shapes: y (B, T, C) decoder stream, mem (B, S, C) encoder output,
mem_keep (B, S) with 1 for real source tokens and 0 for padding (at least one 1 per row).
Self-attention is causal.
"""
import math
import torch
import torch.nn as nn


def bucket(dist, n_buckets, far):
    near = n_buckets // 2
    dist = dist.clamp(min=0)
    big = near + (torch.log(dist.float().clamp(min=1) / near) / math.log(far / near)
                  * (n_buckets - near)).long()
    return torch.where(dist < near, dist, big.clamp(max=n_buckets - 1))


class RawAttention(nn.Module):
    def __init__(self, C, H, d_kv):
        super().__init__()
        self.H, self.d = H, d_kv
        self.q = nn.Linear(C, H * d_kv, bias=False)
        self.k = nn.Linear(C, H * d_kv, bias=False)
        self.v = nn.Linear(C, H * d_kv, bias=False)
        self.o = nn.Linear(H * d_kv, C, bias=False)
        nn.init.normal_(self.q.weight, std=(C * d_kv) ** -0.5)

    def forward(self, x, ctx, bias):
        q = self.q(x).unflatten(-1, (self.H, self.d)).transpose(1, 2)
        k = self.k(ctx).unflatten(-1, (self.H, self.d)).transpose(1, 2)
        v = self.v(ctx).unflatten(-1, (self.H, self.d)).transpose(1, 2)
        w = torch.softmax(q @ k.mT + bias, dim=-1)
        return self.o((w @ v).transpose(1, 2).flatten(2))


class T5ishLayer(nn.Module):
    def __init__(self, C=32, H=4, d_kv=16, n_buckets=8, far=20):
        super().__init__()
        self.table = nn.Embedding(n_buckets, H)
        self.n_buckets, self.far = n_buckets, far
        self.sa, self.ca = RawAttention(C, H, d_kv), RawAttention(C, H, d_kv)
        self.ff = nn.Sequential(nn.Linear(C, 4 * C, bias=False), nn.ReLU(), nn.Linear(4 * C, C, bias=False))
        self.g = nn.Parameter(torch.ones(3, C))

    def norm(self, x, i):
        return self.g[i] * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    def forward(self, y, mem, mem_keep):
        T = y.size(1)
        i = torch.arange(T, device=y.device)
        dist = i[:, None] - i[None]
        bias = self.table(bucket(dist, self.n_buckets, self.far)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(dist < 0, float("-inf"))
        h = self.norm(y, 0)
        y = y + self.sa(h, h, bias)
        cross = torch.zeros_like(mem_keep, dtype=y.dtype).masked_fill(mem_keep == 0, float("-inf"))
        y = y + self.ca(self.norm(y, 1), mem, cross[:, None, None, :])
        return y + self.ff(self.norm(y, 2))
