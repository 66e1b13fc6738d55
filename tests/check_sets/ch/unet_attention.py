import math

import torch
from torch import nn


class QKVAttention(nn.Module):
    """
    Attention on packed channels.

    :param qkv: [N x (3 * H * C) x T] tensor of queries, keys and values.
    :return: [N x (H * C) x T] tensor.
    """

    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        bs, width, length = qkv.shape
        ch = width // (3 * self.n_heads)
        q, k, v = qkv.chunk(3, dim=1)
        # split the scale over q and k, more stable in half precision
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum(
            "bct,bcs->bts",
            (q * scale).view(bs * self.n_heads, ch, length),
            (k * scale).view(bs * self.n_heads, ch, length),
        )
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v.reshape(bs * self.n_heads, ch, length))
        return a.reshape(bs, -1, length)


class AttentionBlock(nn.Module):
    """Lets the positions of a UNet feature map [N x C x H x W] attend to each other."""

    def __init__(self, channels, num_heads=2, groups=8):
        super().__init__()
        assert channels % num_heads == 0
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.attention = QKVAttention(num_heads)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        b, c, *spatial = x.shape
        h = self.norm(x).reshape(b, c, -1)
        h = self.attention(self.qkv(h))
        h = self.proj_out(h)
        return x + h.reshape(b, c, *spatial)
