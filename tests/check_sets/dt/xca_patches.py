"""Cross-covariance attention over image patches (XCiT, El-Nouby et al. 2021).

It is the CHANNELS of a head that attend to each other, not the patches. With q, k, v of
shape (d, N) per head (d channels, N patches):

    A = softmax( (q/|q|) (k/|k|)^T * tau )   of shape (d, d), rows sum to one
    out = A v                                 (d, N)

where |.| is the Euclidean length of a channel along the patches and tau one learned number
per head (there is no 1/sqrt(d)).

x (B, C, H, W) -> patches of p x p -> tokens (B, N, dim) -> (B, N, dim)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchStem(nn.Module):
    def __init__(self, c, dim, p):
        super().__init__()
        self.conv = nn.Conv2d(c, dim, p, stride=p)

    def forward(self, x):
        return self.conv(x).flatten(2).transpose(1, 2)


class XCA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.tau = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)        # each (B, h, d, N)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.tau
        attn = attn.softmax(dim=-1)
        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class TinyXCiT(nn.Module):
    def __init__(self, c=3, dim=32, heads=4, p=4):
        super().__init__()
        self.stem = PatchStem(c, dim, p)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.xca = XCA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        t = self.stem(x)
        t = t + self.xca(self.n1(t))
        return t + self.mlp(self.n2(t))
