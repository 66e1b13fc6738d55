"""Attention over pixels for the diffusion U-Net.

Feature maps stay channel-first all the way, [N, C, H*W].  The 1x1 convolution
packs its channels head by head: (q_0, k_0, v_0, q_1, k_1, v_1, ...), the layout
of the released ADM checkpoints.  Each of q and k is multiplied by d^(-1/4),
together the usual 1/sqrt(d), which is kinder to half precision.
"""
import math
import torch as th
import torch.nn as nn


def normalization(channels):
    return nn.GroupNorm(min(8, channels), channels)


def zero_module(module):
    for p in module.parameters():
        p.detach().zero_()
    return module


class QKVAttention(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        # qkv: [N, H * 3 * C, T]  ->  [N, H * C, T]
        bs, width, length = qkv.shape
        assert width % (3 * self.n_heads) == 0
        ch = width // (3 * self.n_heads)
        q, k, v = qkv.reshape(bs * self.n_heads, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = th.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = th.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = th.einsum("bts,bcs->bct", weight, v)
        return a.reshape(bs, -1, length)


class AttentionBlock(nn.Module):
    """y = x + proj(attention(norm(x))); spatial positions attend to each other."""

    def __init__(self, channels=32, num_heads=4, zero_init=False):
        super().__init__()
        self.norm = normalization(channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.attention = QKVAttention(num_heads)
        self.proj_out = nn.Conv1d(channels, channels, 1)
        if zero_init:
            zero_module(self.proj_out)

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        h = self.proj_out(self.attention(self.qkv(self.norm(x))))
        return (x + h).reshape(b, c, *spatial)
