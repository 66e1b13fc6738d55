"""Blocks for our remote sensing backbone. XCA block adapted from the XCiT paper."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalPatchInteraction(nn.Module):
    def __init__(self, c, k=3):
        super().__init__()
        self.c1 = nn.Conv2d(c, c, k, padding=k // 2, groups=c)
        self.c2 = nn.Conv2d(c, c, k, padding=k // 2, groups=c)
        self.bn = nn.BatchNorm2d(c)

    def forward(self, x, hw):
        B, N, C = x.shape
        y = x.transpose(1, 2).reshape(B, C, *hw)
        y = self.c2(self.bn(F.gelu(self.c1(y))))
        return y.flatten(2).transpose(1, 2)


class XCA(nn.Module):
    """Cross-covariance attention: the "tokens" are the channels of a head.

        XCA(Q, K, V) = V softmax(K^ᵀ Q^ / tau)         (notation of the paper; temperature = 1 / tau)

    where ^ is the L2 normalisation along the N patches.  In the channel-first layout used below
    that is softmax over the last axis of  Q^ K^ᵀ * temperature,  a (d, d) map, then times V.
    Cost linear in N.
    """

    def __init__(self, dim, num_heads=8, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1)          # each B, h, d, N
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        attn = attn.softmax(dim=-1)
        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class XCABlock(nn.Module):
    def __init__(self, dim, num_heads, eta=1e-5):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = XCA(dim, num_heads)
        self.lpi = LocalPatchInteraction(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.g1 = nn.Parameter(eta * torch.ones(dim))
        self.g2 = nn.Parameter(eta * torch.ones(dim))
        self.g3 = nn.Parameter(eta * torch.ones(dim))

    def forward(self, x, hw):
        x = x + self.g1 * self.attn(self.n1(x))
        x = x + self.g3 * self.lpi(self.n3(x), hw)
        return x + self.g2 * self.mlp(self.n2(x))
