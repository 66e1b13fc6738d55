"""Diffusion transformer with text: adaLN-Zero for the time step, cross-attention for the prompt.

Prompts have different lengths; `text_mask` is True on real tokens.  For classifier-free
guidance a prompt may be dropped, its mask is then False everywhere.  A learned null token
stands in front of every prompt and is always visible, so no row is ever empty.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class DiTConfig:
    latent_size: int = 16
    patch: int = 2
    channels: int = 4
    dim: int = 96
    depth: int = 3
    heads: int = 6
    text_dim: int = 40
    p_uncond: float = 0.1


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


class HeadRMS(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], self.g.float(), eps=1e-6).to(x.dtype)


class QKNormAttention(nn.Module):
    """Self-attention (ctx is None) or cross-attention; queries and keys are RMS-normed per head."""

    def __init__(self, dim: int, heads: int, ctx_dim: int | None = None):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(ctx_dim or dim, 2 * dim)
        self.qn, self.kn = HeadRMS(dim // heads), HeadRMS(dim // heads)
        self.o = nn.Linear(dim, dim)

    def forward(self, x: Tensor, ctx: Tensor | None = None, ctx_mask: Tensor | None = None) -> Tensor:
        ctx = x if ctx is None else ctx
        b, n, c = x.shape
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = self.kv(ctx).unflatten(-1, (2, self.h, -1)).permute(2, 0, 3, 1, 4)
        keep = None if ctx_mask is None else ctx_mask[:, None, None, :]       # True takes part
        y = F.scaled_dot_product_attention(self.qn(q), self.kn(k), v, attn_mask=keep)
        return self.o(y.transpose(1, 2).reshape(b, n, c))


class DiTBlock(nn.Module):
    def __init__(self, cfg: DiTConfig):
        super().__init__()
        d = cfg.dim
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d)
        self.n3 = nn.LayerNorm(d, elementwise_affine=False)
        self.self_attn = QKNormAttention(d, cfg.heads)
        self.cross_attn = QKNormAttention(d, cfg.heads, cfg.text_dim)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x: Tensor, t: Tensor, text: Tensor, text_mask: Tensor) -> Tensor:
        s1, c1, g1, s2, c2, g2 = self.ada(t).chunk(6, dim=-1)
        x = x + g1[:, None] * self.self_attn(modulate(self.n1(x), s1, c1))
        x = x + self.cross_attn(self.n2(x), text, text_mask)
        return x + g2[:, None] * self.mlp(modulate(self.n3(x), s2, c2))


class TextDiT(nn.Module):
    def __init__(self, cfg: DiTConfig):
        super().__init__()
        self.cfg = cfg
        n = (cfg.latent_size // cfg.patch) ** 2
        self.embed = nn.Conv2d(cfg.channels, cfg.dim, cfg.patch, cfg.patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, n, cfg.dim))
        self.null = nn.Parameter(0.02 * torch.randn(1, 1, cfg.text_dim))
        self.t_embed = nn.Sequential(nn.Linear(cfg.dim, cfg.dim), nn.SiLU(), nn.Linear(cfg.dim, cfg.dim))
        self.blocks = nn.ModuleList(DiTBlock(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.patch ** 2 * cfg.channels)

    def time(self, t: Tensor) -> Tensor:
        half = self.cfg.dim // 2
        w = torch.exp(-torch.arange(half, device=t.device) * (9.21034 / half))
        a = 1000.0 * t[:, None] * w
        return self.t_embed(torch.cat([a.cos(), a.sin()], -1))

    def forward(self, z: Tensor, t: Tensor, text: Tensor, text_mask: Tensor) -> Tensor:
        b, c, hh, ww = z.shape
        p = self.cfg.patch
        if self.training and self.cfg.p_uncond > 0:
            drop = torch.rand(b, device=z.device) < self.cfg.p_uncond
            text_mask = text_mask & ~drop[:, None]
        text = torch.cat([self.null.expand(b, -1, -1), text], 1)
        text_mask = F.pad(text_mask, (1, 0), value=True)
        x = self.embed(z).flatten(2).transpose(1, 2) + self.pos
        temb = self.time(t)
        for blk in self.blocks:
            x = blk(x, temb, text, text_mask)
        x = self.out(self.norm(x)).view(b, hh // p, ww // p, p, p, c)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(b, c, hh, ww)


def flow_loss(net: TextDiT, z1: Tensor, text: Tensor, mask: Tensor) -> Tensor:
    t = torch.rand(z1.shape[0])
    z0 = torch.randn_like(z1)
    zt = torch.lerp(z0, z1, t[:, None, None, None])
    return F.mse_loss(net(zt, t, text, mask), z1 - z0)


if __name__ == "__main__":
    net = TextDiT(DiTConfig())
    mask = torch.arange(8)[None] < torch.tensor([8, 3])[:, None]
    print(flow_loss(net, torch.randn(2, 4, 16, 16), torch.randn(2, 8, 40), mask).item())
