"""Gated cross-attention from text to interleaved images (Flamingo style).

A text token looks only at the image that came last before it; tokens before
the first image look at nothing, and get nothing added.
"""
import torch
from torch import nn


class MaskedCrossAttention(nn.Module):
    def __init__(self, dim, dim_visual, heads, head_dim):
        super().__init__()
        self.heads = heads
        self.scale = head_dim ** -0.5
        inner = heads * head_dim
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim_visual, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, media, image_at):
        """x [B, T, D]; media [B, M, P, Dv]; image_at [B, T] True where an image starts."""
        b, m, p, _ = media.shape
        split = lambda a: a.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q = split(self.to_q(self.norm(x))) * self.scale
        k, v = map(split, self.to_kv(media.flatten(1, 2)).chunk(2, dim=-1))

        text_time = image_at.long().cumsum(dim=-1)                     # 0 = no image so far
        media_time = torch.arange(1, m + 1, device=x.device).repeat_interleave(p)
        see = text_time[:, None, :, None] == media_time                # [B, 1, T, M * P]

        sim = q @ k.transpose(-1, -2)
        sim = sim.masked_fill(~see, torch.finfo(sim.dtype).min)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        # rows of the leading text are uniform at this point
        attn = attn.masked_fill(text_time[:, None, :, None] == 0, 0.0)
        return self.to_out((attn @ v).transpose(1, 2).flatten(2))


class GatedCrossAttentionBlock(nn.Module):
    """Starts as the identity when gate_init is 0, which is what the paper trains from."""

    def __init__(self, dim=24, dim_visual=16, heads=3, head_dim=8, gate_init=0.5):
        super().__init__()
        self.attn = MaskedCrossAttention(dim, dim_visual, heads, head_dim)
        self.attn_gate = nn.Parameter(torch.tensor([float(gate_init)]))
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim, bias=False), nn.GELU(),
                                nn.Linear(2 * dim, dim, bias=False))
        self.ff_gate = nn.Parameter(torch.tensor([float(gate_init)]))

    def forward(self, x, media, image_at):
        x = x + self.attn(x, media, image_at) * self.attn_gate.tanh()
        return x + self.ff(x) * self.ff_gate.tanh()
