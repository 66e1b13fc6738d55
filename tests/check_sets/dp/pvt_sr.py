"""Encoder stage of a PVT / SegFormer like backbone.

Efficient self-attention: the queries are all H*W tokens, keys and values come
from the map reduced by a strided convolution (kernel = stride = R), then
LayerNorm.  Followed by the Mix-FFN with a 3x3 depth-wise convolution.

``SRStage(dim, heads, R, ratio)``
    x : (B, H*W, dim) tokens in row-major order
    hw : (H, W), both divisible by R
returns (B, H*W, dim).  Logits / sqrt(dim / heads), no mask.
"""
import torch
import torch.nn as nn


class SRAttn(nn.Module):
    def __init__(self, dim, heads, R):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.R = R
        if R > 1:
            self.sr = nn.Conv2d(dim, dim, R, stride=R)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x, hw):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3)
        if self.R > 1:
            x = self.sr(x.permute(0, 2, 1).reshape(B, C, *hw))
            x = self.norm(x.reshape(B, C, -1).permute(0, 2, 1))
        k, v = self.kv(x).reshape(B, -1, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((a @ v).transpose(1, 2).reshape(B, N, C))


class SRStage(nn.Module):
    def __init__(self, dim, heads, R=2, ratio=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SRAttn(dim, heads, R)
        self.fc1, self.fc2 = nn.Linear(dim, ratio * dim), nn.Linear(ratio * dim, dim)
        self.dw = nn.Conv2d(ratio * dim, ratio * dim, 3, padding=1, groups=ratio * dim)

    def mixffn(self, x, hw):
        x = self.fc1(x).transpose(1, 2)
        x = self.dw(x.unflatten(2, hw)).flatten(2).transpose(1, 2)
        return self.fc2(torch.nn.functional.gelu(x))

    def forward(self, x, hw):
        x = x + self.attn(self.n1(x), hw)
        return x + self.mixffn(self.n2(x), hw)
