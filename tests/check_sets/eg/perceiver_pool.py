"""Perceiver resampler: a fixed number of latents read a variable number of frames."""
import torch
from torch import nn, einsum


def exists(v):
    return v is not None


class PerceiverAttention(nn.Module):
    """Latents attend to the concatenation of media and latents.

    media (b, n, dim), latents (b, m, dim), media_mask (b, n) bool with True = real frame.
    The latents themselves are always attended. Per-head width dim_head, scale dim_head ** -0.5.
    """

    def __init__(self, *, dim, dim_head=16, heads=4):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner = dim_head * heads
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, media, latents, media_mask=None):
        x = self.norm_media(media)
        latents = self.norm_latents(latents)
        b, m, h = *media.shape[:2], self.heads
        q = self.to_q(latents)
        kv_input = torch.cat((x, latents), dim=-2)
        k, v = self.to_kv(kv_input).chunk(2, dim=-1)
        q, k, v = map(lambda t: t.unflatten(-1, (h, -1)).movedim(-2, 1), (q, k, v))
        sim = einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        if exists(media_mask):
            mask = nn.functional.pad(media_mask, (0, latents.shape[-2]), value=True)
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.movedim(1, -2).flatten(-2))


class PerceiverResampler(nn.Module):
    """media (b, n, dim) -> (b, num_latents, dim)"""

    def __init__(self, *, dim=32, depth=2, num_latents=5, ff_mult=2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PerceiverAttention(dim=dim),
                nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * ff_mult), nn.GELU(), nn.Linear(dim * ff_mult, dim)),
            ]))
        self.norm = nn.LayerNorm(dim)

    def forward(self, media, media_mask=None):
        x = self.latents.expand(media.shape[0], -1, -1)
        for attn, ff in self.layers:
            x = attn(media, x, media_mask) + x
            x = ff(x) + x
        return self.norm(x)
