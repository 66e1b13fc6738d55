"""Perceiver resampler for a home-made Flamingo.

Turns a variable number of frame features into a fixed number of visual tokens.
frame_mask: bool (batch, frames), True where the frame exists.
"""
import torch
from torch import nn
import torch.nn.functional as F


def ffn(dim, mult=4):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * mult, bias=False),
                         nn.GELU(), nn.Linear(dim * mult, dim, bias=False))


class LatentCross(nn.Module):
    """Latents query the concatenation [media ; latents]."""

    def __init__(self, dim, dim_head=64, heads=8):
        super().__init__()
        inner = dim_head * heads
        self.heads = heads
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)   # first half k, second half v
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x, latents, keep=None):
        """x (b, n, dim) media, latents (b, m, dim), keep bool (b, n), True = real token"""
        x, latents = self.norm_media(x), self.norm_latents(latents)
        b, m, _ = latents.shape
        q = self.to_q(latents)
        k, v = self.to_kv(torch.cat((x, latents), dim=-2)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        mask = None
        if keep is not None:
            keep = torch.cat((keep, keep.new_ones(b, m)), dim=1)   # latents always seen
            mask = keep[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    def __init__(self, dim, depth=2, dim_head=16, heads=4, num_latents=8, max_frames=16):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.02)
        self.time_emb = nn.Parameter(torch.randn(max_frames, 1, dim) * 0.02)
        self.layers = nn.ModuleList([nn.ModuleList([LatentCross(dim, dim_head, heads), ffn(dim)])
                                     for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, frame_mask=None):
        # x: b, frames, patches, dim
        b, t, p, d = x.shape
        x = (x + self.time_emb[:t]).reshape(b, t * p, d)
        keep = None
        if frame_mask is not None:
            keep = frame_mask[:, :, None].expand(b, t, p).reshape(b, t * p)
        lat = self.latents.expand(b, -1, -1)
        for attn, ff in self.layers:
            lat = lat + attn(x, lat, keep)
            lat = lat + ff(lat)
        return self.norm(lat)


if __name__ == "__main__":
    r = Resampler(32)
    fm = torch.tensor([[True, True, False], [True, True, True]])
    print(r(torch.randn(2, 3, 5, 32), fm).shape)
