"""Gated cross-attention of a few-shot visual language model.

A text token looks only at the latents of the image that comes last before it
(`only_attend_immediate_media`), or at those of all images before it. Tokens
before the first image look at nothing and get zeros.
"""
import torch
from torch import nn


def exists(v):
    return v is not None


def feed_forward(dim, mult=4):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * mult, bias=False), nn.GELU(), nn.Linear(dim * mult, dim, bias=False))


class MaskedCrossAttention(nn.Module):
    def __init__(self, *, dim, dim_visual, dim_head=16, heads=4, only_attend_immediate_media=True):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner = dim_head * heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim_visual, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, dim, bias=False)
        self.only_attend_immediate_media = only_attend_immediate_media

    def forward(self, x, media, media_locations=None):
        """
        x (B, T_txt, D_txt); media (B, T_img, n, D_img)
        media_locations: (B, T_txt) bool, True where an <image> tag stands in x
        """
        b, n_img, n_lat = media.shape[:3]
        h = self.heads
        q = self.to_q(self.norm(x))
        k, v = self.to_kv(media.flatten(1, 2)).chunk(2, dim=-1)
        q, k, v = (t.view(b, t.shape[1], h, -1).transpose(1, 2) for t in (q, k, v))
        q = q * self.scale
        sim = q @ k.transpose(-1, -2)

        if exists(media_locations):
            text_time = media_locations.cumsum(dim=-1)[:, None, :, None]
            media_time = torch.arange(1, n_img + 1, device=x.device).repeat_interleave(n_lat)[None, None, None, :]
            op = torch.eq if self.only_attend_immediate_media else torch.ge
            see = op(text_time, media_time)
            sim = sim.masked_fill(~see, -torch.finfo(sim.dtype).max)

        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)

        if exists(media_locations):
            attn = attn.masked_fill(text_time == 0, 0.0)

        out = (attn @ v).transpose(1, 2).reshape(b, x.shape[1], -1)
        return self.to_out(out)


class GatedCrossAttentionBlock(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.attn = MaskedCrossAttention(**kwargs)
        self.attn_gate = nn.Parameter(torch.zeros(1))
        self.ff = feed_forward(kwargs["dim"])
        self.ff_gate = nn.Parameter(torch.zeros(1))

    def forward(self, x, media, media_locations=None):
        x = self.attn(x, media, media_locations=media_locations) * self.attn_gate.tanh() + x
        return self.ff(x) * self.ff_gate.tanh() + x


class FlamingoMixin:
    """Mix into a decoder with `.layers`; puts a gated block before every n-th layer."""

    def init_flamingo(self, every=2, **kw):
        self.gated = nn.ModuleList(GatedCrossAttentionBlock(**kw) if i % every == 0 else nn.Identity() for i in range(len(self.layers)))
        self._media = None

    def condition(self, media, locations):
        self._media = (media, locations)

    def run_layers(self, x):
        for gate, layer in zip(self.gated, self.layers):
            if isinstance(gate, GatedCrossAttentionBlock) and exists(self._media):
                x = gate(x, *self._media)
            x = layer(x)
        return x
