"""TimeSformer's divided space-time attention for the surgical video project."""
import torch
import torch.nn as nn


class MultiheadSelfAttn(nn.Module):
    """Plain multi-head self-attention over x [batch, tokens, channels]."""

    def __init__(self, dim, num_heads=8, qkv_bias=True, proj_drop=0.0):
        super().__init__()
        assert dim % num_heads == 0
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.to_q = nn.Linear(dim, dim, bias=qkv_bias)
        self.to_k = nn.Linear(dim, dim, bias=qkv_bias)
        self.to_v = nn.Linear(dim, dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        b, n, c = x.shape
        q = self.to_q(x).reshape(b, self.num_heads, n, self.head_dim)
        k = self.to_k(x).reshape(b, self.num_heads, n, self.head_dim)
        v = self.to_v(x).reshape(b, self.num_heads, n, self.head_dim)
        w = torch.softmax(q @ k.transpose(2, 3) * self.head_dim ** -0.5, dim=3)
        y = (w @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj_drop(self.proj(y))


class SpaceTimeBlock(nn.Module):
    """x: [B, T, S, C] - T frames of S patches."""

    def __init__(self, dim, heads):
        super().__init__()
        self.norm_t, self.norm_s, self.norm_m = (nn.LayerNorm(dim) for _ in range(3))
        self.time = MultiheadSelfAttn(dim, heads)
        self.space = MultiheadSelfAttn(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, T, S, C = x.shape
        t = self.norm_t(x).permute(0, 2, 1, 3).reshape(B * S, T, C)
        t = self.time(t).reshape(B, S, T, C).permute(0, 2, 1, 3)
        x = x + t
        s = self.space(self.norm_s(x).reshape(B * T, S, C)).reshape(B, T, S, C)
        x = x + s
        return x + self.mlp(self.norm_m(x))


class PhaseRecogniser(nn.Module):
    def __init__(self, patch=16, size=224, frames=8, dim=384, depth=6, heads=6, phases=7):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, 1, (size // patch) ** 2, dim))
        self.when = nn.Parameter(torch.zeros(1, frames, 1, dim))
        self.blocks = nn.ModuleList(SpaceTimeBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, phases)

    def forward(self, clip):
        B, T = clip.shape[:2]
        x = self.embed(clip.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = x.view(B, T, *x.shape[1:]) + self.pos + self.when[:, :T]
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean((1, 2)))
