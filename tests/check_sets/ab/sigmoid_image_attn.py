"""Remote-sensing ViT with sigmoid attention (Ramapuram et al. 2024)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerScale(nn.Module):
    def __init__(self, dim, init=1e-4):
        super().__init__()
        self.gamma = nn.Parameter(init * torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class SigmoidAttention(nn.Module):
    """
    SigmoidAttn(X) = sigmoid(Q K^T / sqrt(d_qk) + b) V,   b = -log(n)

    Not a distribution over the keys: the rows need not sum to one. The bias keeps the
    sum near one at initialisation whatever the number of tokens. ``keep`` removes
    keys (cloudy patches); n is then counted per image.
    """

    def __init__(self, dim, num_heads=6, qk_norm=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, keep=None):
        B, N, C = x.shape
        qkv = self.qkv(x).view(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q, k = self.q_norm(q), self.k_norm(k)
        logits = q @ k.mT / math.sqrt(self.head_dim)
        if keep is None:
            attn = torch.sigmoid(logits - math.log(N))
        else:
            n = keep.sum(dim=-1).clamp(min=1).to(logits.dtype)
            attn = torch.sigmoid(logits - n.log()[:, None, None, None])
            attn = attn * keep[:, None, None, :]
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class SigmoidBlock(nn.Module):
    def __init__(self, dim=48, heads=6):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SigmoidAttention(dim, heads)
        self.ls1, self.ls2 = LayerScale(dim), LayerScale(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, keep=None):
        x = x + self.ls1(self.attn(self.norm1(x), keep))
        return x + self.ls2(self.fc2(F.gelu(self.fc1(self.norm2(x)))))
