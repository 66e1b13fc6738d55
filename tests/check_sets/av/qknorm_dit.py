"""Diffusion transformer block for weather fields (AdaLN-zero, QK-norm)."""
import torch
from torch import nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class QKNormAttention(nn.Module):
    """Queries and keys of every head are brought to unit length (per token, over the
    head's channels), then the cosine similarities are multiplied with a learned
    temperature for each head (Henry et al. 2020)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.log_tau = nn.Parameter(torch.full((heads, 1, 1), 2.3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = F.normalize(q, dim=2)
        k = F.normalize(k, dim=2)
        sim = (q @ k.transpose(-2, -1)) * self.log_tau.clamp(max=4.6).exp()
        sim = sim.softmax(dim=-1)
        return self.proj((sim @ v).transpose(1, 2).reshape(B, N, C))


class TimestepEmbedder(nn.Module):
    def __init__(self, dim, freq=64):
        super().__init__()
        self.freq = freq
        self.mlp = nn.Sequential(nn.Linear(freq, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        half = self.freq // 2
        f = torch.exp(-torch.arange(half, device=t.device) * (9.21034 / half))
        a = t[:, None].float() * f[None]
        return self.mlp(torch.cat([a.cos(), a.sin()], -1))


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = QKNormAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(c).chunk(6, dim=-1)
        x = x + a1.unsqueeze(1) * self.attn(modulate(self.norm1(x), s1, g1))
        return x + a2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, g2))


class WeatherDiT(nn.Module):
    def __init__(self, vars_in=5, dim=64, heads=4, depth=2, patch=4):
        super().__init__()
        self.patch = nn.Conv2d(vars_in, dim, patch, patch)
        self.t = TimestepEmbedder(dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.unpatch = nn.ConvTranspose2d(dim, vars_in, patch, patch)

    def forward(self, field, t):
        z = self.patch(field)
        x, c = z.flatten(2).transpose(1, 2), self.t(t)
        for b in self.blocks:
            x = b(x, c)
        return self.unpatch(x.transpose(1, 2).reshape(z.shape))
