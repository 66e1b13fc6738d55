"""Decoder stage of our polyp segmentation net with cross-covariance attention.

Here the *channels* attend to each other, not the pixels: within each head the d
channels are the tokens and a channel's feature is its course over the H*W pixels.

    q, k, v     (B, heads, d, N),  N = H*W
    q, k        made unit length along N
    A           softmax over the last axis of  (q k^T) * temperature[head]   (d x d)
    out         A v

temperature is learned, one number per head (starting at 1), and takes the place of
the usual 1/sqrt.  Feature maps are (B, C, H, W) in and out.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.local = nn.Conv2d(3 * channels, 3 * channels, 3, padding=1, groups=3 * channels, bias=False)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.local(self.qkv(x)).view(b, 3, self.heads, c // self.heads, h * w).unbind(1)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1)) * self.temperature
        y = a.softmax(dim=-1) @ v
        return self.proj(y.reshape(b, c, h, w))


class DecoderStage(nn.Module):
    """low (B, C, H, W) from below, skip (B, S, 2H, 2W) from the encoder -> (B, S, 2H, 2W)"""

    def __init__(self, c, s, heads=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(c, s, 2, stride=2)
        self.fuse = nn.Sequential(nn.Conv2d(2 * s, s, 3, padding=1), nn.BatchNorm2d(s), nn.ReLU())
        self.xca = XCA(s, heads)
        self.norm = nn.GroupNorm(1, s)

    def forward(self, low, skip):
        x = self.fuse(torch.cat([self.up(low), skip], dim=1))
        return x + self.xca(self.norm(x))
