"""12-lead ECG encoder with differential attention (Ye et al., 2024).

Two maps are computed per head and subtracted, which cancels the baseline that
mains hum and electrode drift put onto every key. Bidirectional (whole
10-second strips are scored offline).
"""
import math
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffAttention(nn.Module):
    """valid: (B, T) bool, True = samples that were recorded. Every strip has some."""

    def __init__(self, embed_dim: int, num_heads: int, depth: int = 0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            setattr(self, name, nn.Parameter(torch.randn(self.head_dim) * 0.1))
        self.subln = RMSNorm(2 * self.head_dim)

    def forward(self, x, valid=None):
        B, T, _ = x.shape
        H, d = self.num_heads, self.head_dim
        q = self.q_proj(x).view(B, T, 2 * H, d).transpose(1, 2) * d ** -0.5
        k = self.k_proj(x).view(B, T, 2 * H, d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, H, 2 * d).transpose(1, 2)

        w = q @ k.transpose(-1, -2)
        if valid is not None:
            w = w.masked_fill(~valid[:, None, None, :], float("-inf"))
        w = torch.softmax(w.float(), dim=-1).to(x.dtype)

        lam = (torch.exp((self.lambda_q1 * self.lambda_k1).sum())
               - torch.exp((self.lambda_q2 * self.lambda_k2).sum()) + self.lambda_init)
        w = w.view(B, H, 2, T, T)
        w = w[:, :, 0] - lam * w[:, :, 1]
        o = self.subln(w @ v) * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(B, T, H * 2 * d))


class ECGBlock(nn.Module):
    def __init__(self, d, h, depth):
        super().__init__()
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.attn = DiffAttention(d, h, depth)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))

    def forward(self, x, valid=None):
        x = x + self.attn(self.n1(x), valid)
        return x + self.ff(self.n2(x))


class ECGEncoder(nn.Module):
    def __init__(self, leads=12, d=64, h=4, layers=2, patch=10, classes=5):
        super().__init__()
        self.stem = nn.Conv1d(leads, d, patch, stride=patch)
        self.blocks = nn.ModuleList(ECGBlock(d, h, i) for i in range(layers))
        self.cls = nn.Linear(d, classes)

    def forward(self, ecg):
        x = self.stem(ecg).transpose(1, 2)
        for b in self.blocks:
            x = b(x)
        return self.cls(x.mean(1))
