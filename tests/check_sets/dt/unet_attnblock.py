"""Attention block of the diffusion U-Net (16x16 level).

h = GroupNorm(x); q, k, v by 1x1 convolutions; full spatial attention over the H*W pixels,
softmax(q^T k / sqrt(channels per head)) ; 1x1 projection; residual.
The scale is put on q and on k before the product rather than on the product, this keeps
half precision from overflowing.

x [B, C, H, W] -> [B, C, H, W]
"""
import torch
import torch.nn as nn


def nonlinearity(x):
    return x * torch.sigmoid(x)


class AttnBlock(nn.Module):
    def __init__(self, channels, num_heads=1, groups=8):
        super().__init__()
        assert channels % num_heads == 0
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        B, C, H, W = x.shape
        h = self.norm(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        ch = C // self.num_heads
        scale = ch ** -0.5
        q = (q * scale).reshape(B * self.num_heads, ch, H * W)
        k = (k * scale).reshape(B * self.num_heads, ch, H * W)
        v = v.reshape(B * self.num_heads, ch, H * W)
        w = torch.einsum("bct,bcs->bts", q, k)
        w = torch.softmax(w.float(), dim=-1).type(w.dtype)
        a = torch.einsum("bts,bcs->bct", w, v)
        return x + self.proj_out(a.reshape(B, C, H, W))


class MidBlock(nn.Module):
    """conv - attention - conv, as in the middle of the U-Net."""

    def __init__(self, channels, num_heads=1):
        super().__init__()
        self.c1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.attn = AttnBlock(channels, num_heads)
        self.c2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        x = x + self.c1(nonlinearity(x))
        x = self.attn(x)
        return x + self.c2(nonlinearity(x))
