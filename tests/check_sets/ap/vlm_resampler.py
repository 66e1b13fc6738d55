"""Perceiver-style resampler that turns a variable number of image patches into a
fixed number of visual tokens for a language model."""
import torch
import torch.nn.functional as F
from torch import nn


def exists(x):
    return x is not None


def FeedForward(dim, mult=4):
    inner = int(dim * mult)
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, inner, bias=False), nn.GELU(), nn.Linear(inner, dim, bias=False))


class LatentReader(nn.Module):
    """latents ask, (media ++ latents) answer.

    media_mask: bool (b, n), True = real patch. The latents themselves are always visible.
    """

    def __init__(self, *, dim, dim_head=64, heads=8):
        super().__init__()
        inner = dim_head * heads
        self.heads = heads
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, latents, media_mask=None):
        x, latents = self.norm_media(x), self.norm_latents(latents)
        b, m, h = *latents.shape[:2], self.heads
        kv_in = torch.cat((x, latents), dim=-2)
        q = self.to_q(latents)
        k, v = self.to_kv(kv_in).chunk(2, dim=-1)
        q, k, v = (t.reshape(b, -1, h, t.shape[-1] // h).permute(0, 2, 1, 3) for t in (q, k, v))
        attn_mask = None
        if exists(media_mask):
            attn_mask = F.pad(media_mask, (0, m), value=True)[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        out = out.permute(0, 2, 1, 3).flatten(2)
        return self.to_out(out)


class Resampler(nn.Module):
    def __init__(self, *, dim, depth=2, dim_head=64, heads=8, num_latents=64, max_media=4, ff_mult=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.02)
        self.media_pos = nn.Parameter(torch.randn(max_media, 1, dim) * 0.02)
        self.layers = nn.ModuleList(
            nn.ModuleList([LatentReader(dim=dim, dim_head=dim_head, heads=heads), FeedForward(dim, ff_mult)])
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, mask=None):
        """x: (b, images, n, d) or (b, n, d)"""
        if x.ndim == 3:
            x = x[:, None]
            mask = mask[:, None] if exists(mask) else None
        b, t, n, d = x.shape
        x = (x + self.media_pos[:t]).reshape(b * t, n, d)
        if exists(mask):
            mask = mask.reshape(b * t, n)
        lat = self.latents.expand(b * t, -1, -1)
        for attn, ff in self.layers:
            lat = attn(x, lat, mask) + lat
            lat = ff(lat) + lat
        return self.norm(lat).view(b, t, -1, d)
