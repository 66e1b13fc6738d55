"""Efficient attention head (Shen et al.): cost linear in the number of pixels.

    rho_q = softmax of each query over its channels
    rho_k = softmax of each key channel over all positions
    E(q, k, v) = rho_q(Q) ( rho_k(K)^T V )

Used in the decoder of the road segmentation net, NCHW.
"""
import torch
from torch import nn
from torch.nn import functional as f


class EfficientAttention(nn.Module):
    def __init__(self, in_channels, key_channels, head_count, value_channels):
        super().__init__()
        assert key_channels % head_count == 0 and value_channels % head_count == 0
        self.hc, self.kc, self.vc = head_count, key_channels, value_channels
        self.keys = nn.Conv2d(in_channels, key_channels, 1)
        self.queries = nn.Conv2d(in_channels, key_channels, 1)
        self.values = nn.Conv2d(in_channels, value_channels, 1)
        self.reprojection = nn.Conv2d(value_channels, in_channels, 1)

    def forward(self, x):
        n, _, h, w = x.size()
        q = self.queries(x).view(n, self.hc, self.kc // self.hc, h * w)
        k = self.keys(x).view(n, self.hc, self.kc // self.hc, h * w)
        v = self.values(x).view(n, self.hc, self.vc // self.hc, h * w)
        q = f.softmax(q, dim=2)
        k = f.softmax(k, dim=3)
        context = k @ v.transpose(2, 3)               # n heads dk dv
        attended = context.transpose(2, 3) @ q        # n heads dv hw
        out = self.reprojection(attended.reshape(n, self.vc, h, w))
        return out + x


class RoadHead(nn.Module):
    def __init__(self, chans=(16, 32), classes=3):
        super().__init__()
        self.low = nn.Conv2d(chans[0], 16, 3, padding=1)
        self.high = nn.Conv2d(chans[1], 16, 1)
        self.att = EfficientAttention(16, 8, 2, 16)
        self.cls = nn.Conv2d(16, classes, 1)

    def forward(self, low, high):
        up = f.interpolate(self.high(high), size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.cls(self.att(f.relu(self.low(low) + up)))
