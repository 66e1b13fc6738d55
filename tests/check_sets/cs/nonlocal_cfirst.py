import torch
import torch.nn as nn


class NonLocalBlock(nn.Module):
    """Scaled non-local block, channels first.

    x: (B, C, H, W).  The affinity is laid out as (B, keys, queries), so that
    ``g @ affinity`` directly yields (B, C', queries).
    """

    def __init__(self, c, inner=None):
        super().__init__()
        inner = inner or c // 2
        self.theta = nn.Conv2d(c, inner, 1)
        self.phi = nn.Conv2d(c, inner, 1)
        self.g = nn.Conv2d(c, inner, 1)
        self.w = nn.Conv2d(inner, c, 1)
        self.inner = inner

    def forward(self, x):
        b, c, h, w = x.shape
        query = self.theta(x).flatten(2)          # B, C', Nq
        key = self.phi(x).flatten(2)              # B, C', Nk
        val = self.g(x).flatten(2)                # B, C', Nk
        aff = key.transpose(1, 2) @ query * self.inner ** -0.5   # B, Nk, Nq
        aff = torch.softmax(aff, dim=1)
        y = (val @ aff).view(b, self.inner, h, w)
        return x + self.w(y)
