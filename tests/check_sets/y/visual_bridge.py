"""Image-to-text bridge: perceiver resampler plus tanh-gated cross attention.

A text token may look only at the image that most recently precedes it
(`media_loc` marks the <image> tokens); tokens before the first image get zeros.
"""
from dataclasses import dataclass

import torch
from torch import nn, einsum


def exists(v):
    return v is not None


@dataclass
class BridgeOut:
    hidden: torch.Tensor
    visual: torch.Tensor


def ff(dim, mult=4):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * mult, bias=False),
                         nn.GELU(), nn.Linear(dim * mult, dim, bias=False))


def heads(t, h):
    return t.reshape(*t.shape[:-1], h, -1).movedim(-2, 1)


def unheads(t):
    return t.movedim(1, -2).flatten(-2)


class Resampler(nn.Module):
    def __init__(self, dim, n_latents=4, h=2, dh=8):
        super().__init__()
        self.h, self.scale = h, dh ** -0.5
        self.latents = nn.Parameter(torch.randn(n_latents, dim))
        self.nx, self.nl = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, h * dh, bias=False)
        self.to_kv = nn.Linear(dim, 2 * h * dh, bias=False)
        self.to_out = nn.Linear(h * dh, dim, bias=False)
        self.ff = ff(dim)

    def forward(self, x):
        """x (b, m, n, d) -> (b, m, n_latents, d)"""
        b, m = x.shape[:2]
        lat = self.latents.expand(b, m, -1, -1)
        x, l = self.nx(x), self.nl(lat)
        q = heads(self.to_q(l), self.h) * self.scale
        k, v = (heads(t, self.h) for t in self.to_kv(torch.cat((x, l), -2)).chunk(2, -1))
        sim = einsum('... i d, ... j d -> ... i j', q, k)
        sim = sim - sim.amax(-1, keepdim=True).detach()
        out = einsum('... i j, ... j d -> ... i d', sim.softmax(-1), v)
        lat = lat + self.to_out(unheads(out))
        return lat + self.ff(lat)


class GatedBridge(nn.Module):
    def __init__(self, dim=32, dim_visual=24, n_latents=4, h=2, dh=8, init_gate=0.5):
        super().__init__()
        self.h, self.scale = h, dh ** -0.5
        self.lift = nn.Linear(dim_visual, dim)
        self.resample = Resampler(dim, n_latents)
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, h * dh, bias=False)
        self.to_kv = nn.Linear(dim, 2 * h * dh, bias=False)
        self.to_out = nn.Linear(h * dh, dim, bias=False)
        self.gate_a = nn.Parameter(torch.tensor([init_gate]))
        self.gate_f = nn.Parameter(torch.tensor([init_gate]))
        self.ff = ff(dim)

    def attend(self, x, media, media_loc=None):
        b, m, n, _ = media.shape
        q = heads(self.to_q(self.norm(x)), self.h) * self.scale
        k, v = (heads(t, self.h) for t in self.to_kv(media.flatten(1, 2)).chunk(2, -1))
        sim = einsum('b h i d, b h j d -> b h i j', q, k)
        if exists(media_loc):
            seen = media_loc.long().cumsum(-1)
            idx = torch.arange(1, m + 1, device=x.device).repeat_interleave(n)
            ok = seen[:, None, :, None] == idx[None, None, None, :]
            sim = sim.masked_fill(~ok, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        if exists(media_loc):
            attn = attn.masked_fill((seen == 0)[:, None, :, None], 0.)
        return self.to_out(unheads(einsum('b h i j, b h j d -> b h i d', attn, v)))

    def forward(self, x, images, media_loc=None):
        """x (b,t,dim), images (b,m,n,dim_visual), media_loc (b,t) bool"""
        media = self.resample(self.lift(images))
        x = x + self.gate_a.tanh() * self.attend(x, media, media_loc)
        x = x + self.gate_f.tanh() * self.ff(x)
        return BridgeOut(hidden=x, visual=media)
