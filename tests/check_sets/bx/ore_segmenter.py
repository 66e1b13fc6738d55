"""Ore/gangue segmentation of conveyor images.

Small conv stem, a global self-attention stage on the stride-4 map, and a
1x1 conv that yields per-pixel logits, upsampled to the input size.
The attention stage is standard multi-head attention over the H*W cells: head
h works on channels h*d..(h+1)*d and its result returns to those channels.
"""
import torch
from torch import nn
import torch.nn.functional as F


class MapAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(1, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, fmap):
        n, c, h, w = fmap.shape
        d = c // self.heads
        qkv = self.qkv(self.norm(fmap)).flatten(2).transpose(1, 2)     # n, hw, 3c
        q, k, v = qkv.view(n, h * w, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) * d ** -0.5
        out = att.softmax(-1) @ v                                      # n, heads, hw, d
        out = out.contiguous().view(n, h * w, c)
        out = out.transpose(1, 2).reshape(n, c, h, w)
        return fmap + self.proj(out)


class OreSegmenter(nn.Module):
    def __init__(self, classes=3, channels=16, heads=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.attention = MapAttention(channels, heads)
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, image):
        z = self.head(self.attention(self.stem(image)))
        return F.interpolate(z, size=image.shape[-2:], mode="bilinear", align_corners=False)


if __name__ == "__main__":
    print(OreSegmenter()(torch.randn(1, 3, 32, 24)).shape)
