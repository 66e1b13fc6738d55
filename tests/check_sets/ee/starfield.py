"""Non-local block for crowded star fields: every pixel compares itself with all others.

StarField(c, heads):  c channels; e = c // heads per head

forward(sky):  sky (B, c, H, W) -> (B, c, H, W)

`pack` is a 1x1 convolution to 3 c channels.  Like in the survey's released weights, its
output channels are grouped BY HEAD:  [q of head 0, k of head 0, v of head 0, q of head 1,
...], e channels each.  Per head: softmax over all pixels of q.k / sqrt(e), times v.  The
output channels are head 0's e channels, then head 1's, ..., at the pixel that asked;
then `unpack` (1x1) and the residual.
"""
import torch
from torch import nn


class StarField(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.e = c // heads
        self.calm = nn.GroupNorm(1, c)
        self.pack = nn.Conv2d(c, 3 * c, kernel_size=1)
        self.unpack = nn.Conv2d(c, c, kernel_size=1)

    def forward(self, sky):
        B, c, H, W = sky.shape
        z = self.pack(self.calm(sky)).flatten(2)                # (B, 3c, N)
        z = z.reshape(B, 3, self.heads, self.e, H * W)
        q, k, v = z.transpose(-1, -2).unbind(1)                 # (B, heads, N, e)
        like = torch.matmul(q, k.transpose(-1, -2)) / self.e ** 0.5
        light = torch.matmul(like.softmax(dim=-1), v)           # (B, heads, N, e)
        light = light.reshape(B, c, H, W)
        return sky + self.unpack(light)
