"""Divided space-time attention for video (TimeSformer layout).

PackedAttention(dim, heads)
    the input projection `qkv` is one Linear(dim, 3 * dim).  Its 3 * dim outputs
    are ordered head by head, as in the checkpoints we load: for head 0 the d
    channels of q, the d of k, the d of v, then the same for head 1, and so on
    (d = dim / heads).
    forward(x)   (N, L, dim) -> (N, L, dim), plain self-attention over L,
                 scores q.k / sqrt(d)

DividedBlock(dim, heads)
    forward(video)   (B, T, P, dim), T frames of P patches -> the same shape
    1. time:  each patch position attends over the T frames
    2. space: each frame attends over its P patches
    3. MLP
    with a LayerNorm before and a residual connection around each of them; the
    time branch has a Linear of its own that starts at zero (init_time_zero).
"""
import torch
import torch.nn.functional as F
from torch import nn


class PackedAttention(nn.Module):
    def __init__(self, dim, heads, qkv_bias=True, dropout=0.0):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.d = dim // heads
        self.dropout = dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        N, L, C = x.shape
        packed = self.qkv(x).view(N, L, 3, self.heads, self.d)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(N, L, C))


class DividedBlock(nn.Module):
    def __init__(self, dim, heads, mlp=4, init_time_zero=True):
        super().__init__()
        self.norm_t, self.norm_s, self.norm_m = (nn.LayerNorm(dim) for _ in range(3))
        self.time = PackedAttention(dim, heads)
        self.space = PackedAttention(dim, heads)
        self.time_fc = nn.Linear(dim, dim)
        if init_time_zero:
            nn.init.zeros_(self.time_fc.weight)
            nn.init.zeros_(self.time_fc.bias)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.GELU(), nn.Linear(mlp * dim, dim))

    def forward(self, video):
        B, T, P, C = video.shape

        t = video.transpose(1, 2).reshape(B * P, T, C)
        t = self.time_fc(self.time(self.norm_t(t)))
        video = video + t.view(B, P, T, C).transpose(1, 2)

        s = video.reshape(B * T, P, C)
        s = self.space(self.norm_s(s))
        video = video + s.view(B, T, P, C)

        return video + self.mlp(self.norm_m(video))
