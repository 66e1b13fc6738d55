"""PatchTST backbone (channel independent) with residual attention scores as in RealFormer."""
import torch
from torch import nn


class ResidualAttention(nn.Module):
    """softmax(q k^T / sqrt(d_k) + scores of the layer before) v

    x: (bs, patches, d_model); prev: (bs, heads, patches, patches) pre-softmax scores or None.
    Returns the output and the pre-softmax scores of this layer, for the next one.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.dk = n_heads, d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, prev=None):
        bs = x.size(0)
        q = self.W_Q(x).view(bs, -1, self.h, self.dk).transpose(1, 2)
        k = self.W_K(x).view(bs, -1, self.h, self.dk).permute(0, 2, 3, 1)
        v = self.W_V(x).view(bs, -1, self.h, self.dk).transpose(1, 2)
        scores = torch.matmul(q, k) * self.dk ** -0.5
        if prev is not None:
            scores = scores + prev
        w = torch.softmax(scores, dim=-1)
        o = torch.matmul(w, v).transpose(1, 2).contiguous().view(bs, -1, self.h * self.dk)
        return self.out(o), scores


class PatchTST(nn.Module):
    """series: (bs, channels, length) -> forecast (bs, channels, horizon)"""

    def __init__(self, length=96, horizon=24, patch=16, stride=8, d_model=32, n_heads=4, layers=3):
        super().__init__()
        self.patch, self.stride = patch, stride
        n = (length - patch) // stride + 1
        self.embed = nn.Linear(patch, d_model)
        self.pos = nn.Parameter(torch.randn(n, d_model) * 0.02)
        self.att = nn.ModuleList([ResidualAttention(d_model, n_heads) for _ in range(layers)])
        self.norm1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, d_model))
                                 for _ in range(layers)])
        self.norm2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(layers)])
        self.head = nn.Linear(n * d_model, horizon)

    def forward(self, series):
        bs, c, _ = series.shape
        mean = series.mean(-1, keepdim=True)
        std = series.std(-1, keepdim=True) + 1e-5
        x = ((series - mean) / std).unfold(-1, self.patch, self.stride)
        x = self.embed(x).flatten(0, 1) + self.pos
        scores = None
        for att, n1, ff, n2 in zip(self.att, self.norm1, self.ff, self.norm2):
            a, scores = att(x, scores)
            x = n1(x + a)
            x = n2(x + ff(x))
        y = self.head(x.flatten(1)).view(bs, c, -1)
        return y * std + mean
