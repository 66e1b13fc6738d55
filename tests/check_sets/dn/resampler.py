"""Perceiver resampler (Alayrac et al. 2022, Flamingo).

A fixed number of learned latents reads a variable number of frame features.

Resampler(dim, depth, heads, head_dim, num_latents, max_frames)
    forward(frames, real=None)
        frames  (B, T, P, dim): T frames of P patches each
        real    (B, T) bool, True = the frame exists.  Patches of other frames
                are never read
        ->      (B, num_latents, dim)
In each layer the keys and values are the media tokens followed by the latents
themselves; both are normalised with their own LayerNorm.  The latents may
always read each other, so no row is ever empty.
Scores: q.k / sqrt(head_dim).
"""
import torch
from torch import nn


def feed_forward(dim, mult=4):
    inner = dim * mult
    return nn.Sequential(
        nn.LayerNorm(dim),
        nn.Linear(dim, inner, bias=False),
        nn.GELU(),
        nn.Linear(inner, dim, bias=False),
    )


class LatentAttention(nn.Module):
    def __init__(self, dim, heads=4, head_dim=16):
        super().__init__()
        self.heads = heads
        self.scale = head_dim ** -0.5
        inner = heads * head_dim
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, media, latents, media_ok):
        """media (B, M, dim), latents (B, R, dim), media_ok (B, M) bool or None"""
        media = self.norm_media(media)
        latents = self.norm_latents(latents)
        both = torch.cat((media, latents), dim=1)

        q = self.to_q(latents)
        k, v = self.to_kv(both).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))

        sim = torch.einsum("bhid,bhjd->bhij", q * self.scale, k)
        if media_ok is not None:
            always = media_ok.new_ones(media_ok.size(0), latents.size(1))
            ok = torch.cat((media_ok, always), dim=1)
            sim = sim.masked_fill(~ok[:, None, None, :], -torch.finfo(sim.dtype).max)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)

        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    def __init__(self, dim, depth=2, heads=4, head_dim=16, num_latents=8, max_frames=16):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.frame_pos = nn.Parameter(torch.randn(max_frames, 1, dim))
        self.layers = nn.ModuleList(
            nn.ModuleList([LatentAttention(dim, heads, head_dim), feed_forward(dim)])
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, frames, real=None):
        B, T, P, _ = frames.shape
        media = (frames + self.frame_pos[:T]).flatten(1, 2)
        ok = None if real is None else real.repeat_interleave(P, dim=1)
        z = self.latents.expand(B, -1, -1)
        for attn, ff in self.layers:
            z = z + attn(media, z, ok)
            z = z + ff(z)
        return self.norm(z)
