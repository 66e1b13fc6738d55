"""Video moderation: divided space-time block (time first, then space), residual.

DividedBlock(dim, heads).forward(clip) -> same shape
    clip  (B, F, P, dim)   F frames with P patches each
Time step:  patch p of frame f attends to patch p of all frames of the same clip.
Space step: patch p of frame f attends to all patches of frame f.
Pre-norm, 1/sqrt(dim / heads), no mask (clips have a fixed number of frames).
"""
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    """Self-attention over the second axis of (N, L, dim)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.pre = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        N, L, C = x.shape
        qkv = self.qkv(self.pre(x)).reshape(N, L, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(N, L, C))


class DividedBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.time, self.space = Mixer(dim, heads), Mixer(dim, heads)

    def forward(self, clip):
        B, Fr, P, C = clip.shape
        t = clip.transpose(1, 2).reshape(B * P, Fr, C)
        t = self.time(t).reshape(B, P, Fr, C).transpose(1, 2)
        clip = clip + t
        s = clip.reshape(B * Fr, P, C)
        return clip + self.space(s).reshape(B, Fr, P, C)
