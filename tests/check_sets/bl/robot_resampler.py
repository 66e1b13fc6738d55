"""Visual resampler of a manipulation policy: camera tokens -> a fixed number of latents."""

from __future__ import annotations

import logging
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


def exists(val):
    return val is not None


def FeedForward(dim, mult=4):
    inner = int(dim * mult)
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, inner, bias=False), nn.GELU(), nn.Linear(inner, dim, bias=False))


class ResamplerAttention(nn.Module):
    """Latents attend to [camera tokens ; latents], queries and keys are normalised (QK-norm).

    ``is_pad`` (batch, tokens) is True where a camera did not deliver a token.  Latents are
    always visible, so that no row is empty.
    """

    def __init__(self, *, dim, dim_head=16, heads=4, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        inner_dim = dim_head * heads
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.q_norm = nn.LayerNorm(dim_head)
        self.k_norm = nn.LayerNorm(dim_head)
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x, latents, is_pad=None):
        x = self.norm_media(x)
        latents = self.norm_latents(latents)
        b, m = latents.shape[:2]

        q = self.to_q(latents)
        kv_input = torch.cat((x, latents), dim=-2)
        k, v = self.to_kv(kv_input).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        q, k = self.q_norm(q), self.k_norm(k)

        attn_mask = None
        if exists(is_pad):
            visible = torch.cat((~is_pad, is_pad.new_ones(b, m)), dim=1)
            attn_mask = visible[:, None, None, :]

        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask, dropout_p=self.dropout if self.training else 0.0
        )
        return self.to_out(out.transpose(1, 2).flatten(2))


class Resampler(nn.Module):
    def __init__(self, *, dim, depth=2, num_latents=8, num_cameras=3, **attn):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.02)
        self.camera_emb = nn.Parameter(torch.randn(num_cameras, 1, dim) * 0.02)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleList([ResamplerAttention(dim=dim, **attn), FeedForward(dim)]))
        self.norm = nn.LayerNorm(dim)

    def forward(self, images, camera_on=None):
        """images (batch, cameras, tokens, dim); camera_on (batch, cameras) bool"""
        b, c, n, _ = images.shape
        x = (images + self.camera_emb[:c]).flatten(1, 2)
        is_pad = None
        if exists(camera_on):
            is_pad = (~camera_on).repeat_interleave(n, dim=1)
            logger.debug("%d of %d cameras off", int((~camera_on).sum()), b * c)
        latents = self.latents.expand(b, -1, -1)
        for attn, ff in self.layers:
            latents = attn(x, latents, is_pad) + latents
            latents = ff(latents) + latents
        return self.norm(latents)


class Policy(nn.Module):
    def __init__(self, dim=32, action_dim=7):
        super().__init__()
        self.resampler = Resampler(dim=dim)
        self.head = nn.Sequential(OrderedDict(act=nn.GELU(), fc=nn.Linear(dim, action_dim)))

    def forward(self, images, camera_on=None):
        return torch.tanh(self.head(self.resampler(images, camera_on).mean(1)))
