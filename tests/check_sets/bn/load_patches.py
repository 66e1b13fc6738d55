# Electricity load forecasting from patched series.
# Data as in the UCI set: one row per client, kW every 15 min, gaps marked in `observed`.
import math
import torch
from torch import nn


def make_patches(series, observed, p):
    """series, observed: [B, T] -> patches [B, T//p, 2p], a patch counts as observed
    if at least half of it is."""
    B, T = series.shape
    n = T // p
    s = series[:, : n * p].reshape(B, n, p)
    o = observed[:, : n * p].reshape(B, n, p)
    feats = torch.cat([s * o, o.to(s.dtype)], -1)
    return feats, o.float().mean(-1) >= 0.5


class RevIN(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def fit(self, x, o):
        n = o.sum(1, keepdim=True).clamp(min=1)
        self.mu = (x * o).sum(1, keepdim=True) / n
        self.sd = (((x - self.mu) * o).pow(2).sum(1, keepdim=True) / n + self.eps).sqrt()
        return (x - self.mu) / self.sd

    def undo(self, y):
        return y * self.sd + self.mu


class PatchAttention(nn.Module):
    """Scaled dot-product attention between patches, softmax(q k^T / sqrt(d)) v.

    observed: bool [B, N], True = patch may be attended to.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.Q = nn.Linear(d_model, d_model)
        self.K = nn.Linear(d_model, d_model)
        self.V = nn.Linear(d_model, d_model)
        self.O = nn.Linear(d_model, d_model)

    def forward(self, x, observed):
        B, N, D = x.shape
        q = self.Q(x).view(B, N, self.n_heads, self.d_head).permute(0, 2, 1, 3)
        k = self.K(x).view(B, N, self.n_heads, self.d_head).permute(0, 2, 1, 3)
        v = self.V(x).view(B, N, self.n_heads, self.d_head).permute(0, 2, 1, 3)

        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(2))
        missing = observed.logical_not_()[:, None, None, :]
        scores = scores.masked_fill(missing, -1e9)
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(B, N, D)
        return self.O(out)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attn = PatchAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x, observed):
        x = self.norm1(x + self.attn(x, observed))
        return self.norm2(x + self.mlp(x))


class LoadForecaster(nn.Module):
    def __init__(self, patch=8, n_patches=12, horizon=16, d_model=32, n_heads=4, depth=2):
        super().__init__()
        self.patch = patch
        self.rev = RevIN()
        self.embed = nn.Linear(2 * patch, d_model)
        self.pos = nn.Parameter(torch.randn(n_patches, d_model) * 0.02)
        self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads) for _ in range(depth)])
        self.head = nn.Linear(n_patches * d_model, horizon)

    def forward(self, series, observed):
        z = self.rev.fit(series, observed)
        x, ok = make_patches(z, observed, self.patch)
        x = self.embed(x) + self.pos
        for layer in self.layers:
            x = layer(x, ok)
        return self.rev.undo(self.head(x.flatten(1)))
