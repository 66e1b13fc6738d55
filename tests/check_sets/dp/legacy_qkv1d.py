"""UNet attention block after guided-diffusion (the "legacy" ordering).

The 1x1 convolution makes 3*C channels which are read head by head: the
channels of one head are contiguous, [q | k | v] inside of it, i.e.
(heads, 3, ch).  q and k are both multiplied by ch ** -0.25, which is the usual
1/sqrt(ch) but safer in half precision; the weights are computed in float32.

``UNetAttn(channels, heads)``
    x : (N, C, *spatial) with any number of spatial axes -> same shape
    every position reads every position of its own sample
The output convolution starts at zero in the paper, ``zero_init=False`` keeps
the default init.
"""
import math
import torch as th
import torch.nn as nn


class UNetAttn(nn.Module):
    def __init__(self, channels, heads, groups=4, zero_init=True):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)
        if zero_init:
            for p in self.proj_out.parameters():
                p.detach().zero_()

    def forward(self, x):
        n, c, *spatial = x.shape
        x = x.reshape(n, c, -1)
        h = self._attend(self.qkv(self.norm(x)))
        return (x + self.proj_out(h)).reshape(n, c, *spatial)

    def _attend(self, qkv):
        bs, width, length = qkv.shape
        ch = width // (3 * self.heads)
        q, k, v = qkv.reshape(bs * self.heads, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = th.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = th.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = th.einsum("bts,bcs->bct", weight, v)
        return a.reshape(bs, -1, length)
