"""Cross-covariance image transformer block (El-Nouby et al., 2021).

Attention runs between channels, not between patches: the map is d x d per
head and the cost is linear in the number of patches.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, dim=24, num_heads=3, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        # one learned temperature per head, queries and keys have unit norm over the patches
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)        # each [B, heads, d, N]
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature   # [B, heads, d, d]
        attn = attn.softmax(dim=-1)
        y = attn @ v
        return self.proj(y.permute(0, 3, 1, 2).reshape(B, N, C))


class LPI(nn.Module):
    """Local patch interaction: depthwise convolutions on the patch grid."""

    def __init__(self, dim, kernel=3):
        super().__init__()
        self.conv1 = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.BatchNorm2d(dim)
        self.conv2 = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        g = x.transpose(1, 2).reshape(B, C, H, W)
        g = self.conv2(self.bn(F.gelu(self.conv1(g))))
        return g.flatten(2).transpose(1, 2)


class XCiTBlock(nn.Module):
    def __init__(self, dim=24, num_heads=3, mlp_ratio=2, eta=1.0):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))
        self.attn = XCA(dim, num_heads)
        self.lpi = LPI(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))
        self.g1, self.g2, self.g3 = (nn.Parameter(eta * torch.ones(dim)) for _ in range(3))

    def forward(self, x, H, W):
        x = x + self.g1 * self.attn(self.norm1(x))
        x = x + self.g3 * self.lpi(self.norm3(x), H, W)
        return x + self.g2 * self.mlp(self.norm2(x))
