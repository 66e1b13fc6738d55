"""Perceiver-style encoder of a drone pilot: camera patches + IMU -> fixed latents."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def fourier(pos, bands=6):
    """pos (..., n) in [-1, 1] -> (..., n * (2*bands + 1))"""
    f = torch.pi * 2.0 ** torch.arange(bands, device=pos.device)
    ang = pos.unsqueeze(-1) * f
    return torch.cat([pos.unsqueeze(-1), ang.sin(), ang.cos()], -1).flatten(-2)


class Attn(nn.Module):
    def __init__(self, dim, ctx_dim=None, heads=4, dim_head=16, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.p = heads, dropout
        self.norm = nn.LayerNorm(dim)
        self.norm_ctx = nn.LayerNorm(ctx_dim) if ctx_dim is not None else None
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(ctx_dim or dim, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, ctx=None, present=None):
        """present (B, M): True for context tokens that arrived in time (never none)."""
        x = self.norm(x)
        ctx = x if self.norm_ctx is None else self.norm_ctx(ctx)
        q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_kv(ctx).chunk(2, -1))
        m = None if present is None else present[:, None, None, :]
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=self.p if self.training else 0.0)
        return self.to_out(o.transpose(1, 2).flatten(2))


class FF(nn.Sequential):
    def __init__(self, dim):
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))


class LatentPilot(nn.Module):
    def __init__(self, patch=8, imu_dim=6, n_latent=16, dim=64, depth=2, heads=4, actions=4, dropout=0.0):
        super().__init__()
        self.patch = patch
        ctx = 96
        self.pix = nn.Linear(3 * patch * patch + 26, ctx)
        self.imu = nn.Linear(imu_dim, ctx)
        self.latents = nn.Parameter(torch.randn(n_latent, dim) * 0.02)
        self.cross = nn.ModuleList(Attn(dim, ctx, heads, dropout=dropout) for _ in range(depth))
        self.selfs = nn.ModuleList(Attn(dim, None, heads, dropout=dropout) for _ in range(depth))
        self.ff1 = nn.ModuleList(FF(dim) for _ in range(depth))
        self.ff2 = nn.ModuleList(FF(dim) for _ in range(depth))
        self.head = nn.Linear(dim, actions)

    def tokens(self, img, imu):
        B, _, H, W = img.shape
        p = F.unfold(img, self.patch, stride=self.patch).transpose(1, 2)
        y, x = torch.meshgrid(torch.linspace(-1, 1, H // self.patch), torch.linspace(-1, 1, W // self.patch),
                              indexing="ij")
        pos = fourier(torch.stack([y, x], -1).reshape(-1, 2).to(img)).expand(B, -1, -1)
        return torch.cat([self.pix(torch.cat([p, pos], -1)), self.imu(imu)], 1)

    def forward(self, img, imu, present=None):
        ctx = self.tokens(img, imu)
        z = self.latents.expand(img.size(0), -1, -1)
        for c, f1, s, f2 in zip(self.cross, self.ff1, self.selfs, self.ff2):
            z = z + c(z, ctx, present)
            z = z + f1(z)
            z = z + s(z)
            z = z + f2(z)
        return torch.tanh(self.head(z.mean(1)))
