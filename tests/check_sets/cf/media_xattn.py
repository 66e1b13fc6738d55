"""Cross-attention adapter between frozen language-model layers (Flamingo style).

Interleaved input: the text holds <image> markers (``media_at`` is True there)
and the i-th marker belongs to the i-th image.  A text token looks only at the
latest image at or before it.  A text token that comes before any image gets
exactly zero from the cross attention.
"""
import torch
from torch import nn, einsum


def FeedForward(dim, mult=4):
    inner = int(dim * mult)
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, inner, bias=False),
                         nn.GELU(), nn.Linear(inner, dim, bias=False))


class MediaCrossAttention(nn.Module):
    def __init__(self, *, dim=48, dim_visual=32, dim_head=16, heads=3):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner = dim_head * heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim_visual, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, media, media_at):
        """
        x         (b, t, dim)            text
        media     (b, images, n, dim_visual)
        media_at  (b, t) bool            True where an <image> marker stands
        """
        images, n = media.shape[1:3]
        media = media.flatten(1, 2)

        q = self.split(self.to_q(self.norm(x))) * self.scale
        k, v = map(self.split, self.to_kv(media).chunk(2, dim=-1))
        sim = einsum('b h i d, b h j d -> b h i j', q, k)

        text_time = media_at.long().cumsum(dim=-1)                 # 0: no image yet
        media_time = torch.arange(1, images + 1, device=x.device).repeat_interleave(n)
        same = text_time[:, None, :, None] == media_time[None, None, None, :]
        sim = sim.masked_fill(~same, torch.finfo(sim.dtype).min)

        attn = sim.softmax(dim=-1)
        none_yet = (text_time == 0)[:, None, :, None]
        attn = attn.masked_fill(none_yet, 0.)

        out = einsum('b h i j, b h j d -> b h i d', attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class GatedMediaBlock(nn.Module):
    """tanh gates start closed, so the frozen model is untouched at first."""

    def __init__(self, **kw):
        super().__init__()
        self.attn = MediaCrossAttention(**kw)
        self.attn_gate = nn.Parameter(torch.zeros(1))
        dim = self.attn.to_q.in_features
        self.ff = FeedForward(dim)
        self.ff_gate = nn.Parameter(torch.zeros(1))

    def forward(self, x, media, media_at):
        x = self.attn(x, media, media_at) * self.attn_gate.tanh() + x
        return self.ff(x) * self.ff_gate.tanh() + x
