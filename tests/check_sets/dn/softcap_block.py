"""Pre-/post-norm block with capped scores (Gemma 2 style), for encoders.

    score = cap * tanh(q.k / sqrt(d) / cap)

so that no score leaves (-cap, cap).  cap=None switches the capping off.
Queries and keys may be rms-normalised first (qk_norm=True).

CappedBlock(dim, heads, cap, qk_norm)
    forward(x, real)
        x     (B, L, dim)
        real  (B, L) bool, True = real token; padding is never read, its weight
              is exactly 0.  At least one real token per row
        ->    (B, L, dim)
    x = x + post1(attn(pre1(x)));  x = x + post2(mlp(pre2(x)))
"""
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class CappedAttention(nn.Module):
    def __init__(self, dim, heads, cap=20.0, qk_norm=False):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.d = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.q_norm = RMSNorm(self.d) if qk_norm else nn.Identity()
        self.k_norm = RMSNorm(self.d) if qk_norm else nn.Identity()

    def forward(self, x, real):
        B, L, _ = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, self.d).unbind(2)
        q, k = self.q_norm(q), self.k_norm(k)

        scores = torch.einsum("blhd,bmhd->bhlm", q, k) / self.d ** 0.5
        block = torch.zeros(B, 1, 1, L, dtype=scores.dtype, device=x.device)
        block = block.masked_fill(~real[:, None, None, :], float("-inf"))
        scores = scores + block
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)

        w = torch.softmax(scores, dim=-1)
        y = torch.einsum("bhlm,bmhd->blhd", w, v)
        return self.out(y.flatten(2))


class GatedMLP(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.up = nn.Linear(dim, 2 * mult * dim, bias=False)
        self.down = nn.Linear(mult * dim, dim, bias=False)

    def forward(self, x):
        g, u = self.up(x).chunk(2, dim=-1)
        return self.down(nn.functional.gelu(g) * u)


class CappedBlock(nn.Module):
    def __init__(self, dim, heads, cap=20.0, qk_norm=False):
        super().__init__()
        self.pre1, self.post1 = RMSNorm(dim), RMSNorm(dim)
        self.pre2, self.post2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = CappedAttention(dim, heads, cap, qk_norm)
        self.mlp = GatedMLP(dim)

    def forward(self, x, real):
        x = x + self.post1(self.attn(self.pre1(x), real))
        return x + self.post2(self.mlp(self.pre2(x)))
