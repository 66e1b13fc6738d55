"""通道间的注意力 (XCiT, cross-covariance attention)。

与普通注意力不同：相似度矩阵是 d x d（通道对通道），而不是 N x N。
    q, k 在 token 维上做 L2 归一化
    A = softmax( q k^T * tau )，q, k 为 (d, N)，对最后一维（被读取的通道）归一化
    y = A v
tau 是每个头可学习的温度，所以没有 1/sqrt(d)。

XCA(dim, heads)
    forward(x, real=None)
        x      (B, N, dim)
        real   (B, N) bool，True = 真实 token，False = 填充。填充的 token 不参与
               相关性的计算，输出为 0
        ->     (B, N, dim)
LPI 是深度可分离卷积，让相邻像素交换信息；XCABlock 把两者放在一起。
"""
import torch
import torch.nn.functional as F
from torch import nn


class XCA(nn.Module):
    def __init__(self, dim, heads=4, qkv_bias=True):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, real=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1)              # 各为 (B, h, d, N)
        if real is not None:
            keep = real[:, None, None, :].to(x.dtype)
            q, k, v = q * keep, k * keep, v * keep
        q = F.normalize(q, dim=-1)                        # 沿 token 归一化
        k = F.normalize(k, dim=-1)

        attn = (q @ k.transpose(-2, -1)) * self.temperature   # (B, h, d, d)
        attn = attn.softmax(dim=-1)
        y = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        y = self.proj(y)
        if real is not None:
            y = y * real.unsqueeze(-1).to(y.dtype)
        return y


class LPI(nn.Module):
    """local patch interaction：两个 3x3 深度卷积"""

    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.c2 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x, hw):
        t = x.transpose(1, 2).unflatten(2, hw)
        t = self.c2(F.gelu(self.c1(t)))
        return t.flatten(2).transpose(1, 2)


class XCABlock(nn.Module):
    def __init__(self, dim, heads=4, eta=1.0):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))
        self.attn, self.lpi = XCA(dim, heads), LPI(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.g1, self.g2, self.g3 = (nn.Parameter(eta * torch.ones(dim)) for _ in range(3))

    def forward(self, x, hw):
        x = x + self.g1 * self.attn(self.n1(x))
        x = x + self.g2 * self.lpi(self.n2(x), hw)
        return x + self.g3 * self.mlp(self.n3(x))
