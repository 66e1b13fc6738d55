"""Attention block of the diffusion U-Net (ADM / guided-diffusion checkpoints).

The channels of ``qkv`` are in the order of the old checkpoints: heads first and
then q, k, v within each head, i.e. (H, 3, ch). Half of the scale goes on q and
half on k so that fp16 does not overflow, and the softmax is in float32.
"""
import math

import torch as th
import torch.nn as nn


def zero_module(m):
    for p in m.parameters():
        p.detach().zero_()
    return m


class GroupNorm32(nn.GroupNorm):
    def forward(self, x):
        return super().forward(x.float()).type(x.dtype)


class QKVAttentionLegacy(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        """
        :param qkv: an [N x (H * 3 * C) x T] tensor.
        :return: an [N x (H * C) x T] tensor.
        """
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
    """Spatial self-attention over all pixels; [N x C x ...spatial] in and out."""

    def __init__(self, channels=32, num_heads=1, num_head_channels=-1, groups=8,
                 zero_init=False):
        super().__init__()
        if num_head_channels != -1:
            assert channels % num_head_channels == 0
            num_heads = channels // num_head_channels
        self.num_heads = num_heads
        self.norm = GroupNorm32(groups, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.attention = QKVAttentionLegacy(num_heads)
        self.proj_out = nn.Conv1d(channels, channels, 1)
        if zero_init:
            zero_module(self.proj_out)

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        h = self.proj_out(self.attention(self.qkv(self.norm(x))))
        return (x + h).reshape(b, c, *spatial)


if __name__ == "__main__":
    block = AttentionBlock(32, num_head_channels=8)
    print(block(th.randn(2, 32, 4, 6)).shape)
