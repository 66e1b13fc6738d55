import torch
from torch import nn, einsum


def split(t, h):
    b, n, _ = t.shape
    return t.reshape(b, n, h, -1).permute(0, 2, 1, 3).reshape(b * h, n, -1)


def merge(t, h):
    bh, n, d = t.shape
    return t.reshape(bh // h, h, n, d).permute(0, 2, 1, 3).reshape(bh // h, n, h * d)


class Attend(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=16):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads = heads
        self.scale = dim_head**-0.5
        self.norm = nn.LayerNorm(query_dim)
        self.norm_ctx = nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        x = self.norm(x)
        context = x if context is None else self.norm_ctx(context)
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (split(t, h) for t in (q, k, v))
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        if mask is not None:
            mask = mask.repeat_interleave(h, dim=0)[:, None, :]
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        return self.to_out(merge(einsum("b i j, b j d -> b i d", attn, v), h))


class FF(nn.Sequential):
    def __init__(self, dim, mult=2):
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class PerceiverEncoder(nn.Module):
    def __init__(self, input_dim, num_latents=16, latent_dim=48, depth=2, heads=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim))
        self.cross = Attend(latent_dim, input_dim, heads=heads)
        self.cross_ff = FF(latent_dim)
        self.layers = nn.ModuleList(
            nn.ModuleList([Attend(latent_dim, heads=heads), FF(latent_dim)]) for _ in range(depth)
        )

    def forward(self, data, mask=None):
        x = self.latents.expand(data.shape[0], -1, -1)
        x = x + self.cross(x, data, mask)
        x = x + self.cross_ff(x)
        for attn, ff in self.layers:
            x = x + attn(x)
            x = x + ff(x)
        return x
