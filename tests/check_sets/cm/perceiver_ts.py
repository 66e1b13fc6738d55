"""Perceiver encoder for irregular time series: N learned latents read the events."""
import torch
import torch.nn as nn
from torch import einsum


class CrossRead(nn.Module):
    def __init__(self, d_q, d_kv, heads=2, dim_head=8):
        super().__init__()
        self.heads = heads
        self.scale = dim_head ** -0.5
        inner = heads * dim_head
        self.norm_q, self.norm_kv = nn.LayerNorm(d_q), nn.LayerNorm(d_kv)
        self.to_q = nn.Linear(d_q, inner, bias=False)
        self.to_kv = nn.Linear(d_kv, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, d_q)

    def forward(self, lat, ev=None, mask=None):
        q_in = self.norm_q(lat)
        ctx = q_in if ev is None else self.norm_kv(ev)
        b, n, _ = q_in.shape
        q = self.to_q(q_in).unflatten(-1, (self.heads, -1))
        k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.to_kv(ctx).chunk(2, dim=-1))
        sim = einsum("bihd,bjhd->bhij", q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        out = einsum("bhij,bjhd->bihd", sim.softmax(dim=-1), v)
        return self.to_out(out.flatten(2))


class EventPerceiver(nn.Module):
    """values (B, T, C), times (B, T), mask (B, T) True where an event was observed.

    Returns (B, n_latents, dim). Order of the events does not matter, only their times.
    """

    def __init__(self, channels=3, dim=16, n_latents=4, depth=2, n_freq=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.5)
        self.register_buffer("freq", 2.0 ** torch.arange(n_freq))
        d_ev = channels + 2 * n_freq
        self.read = nn.ModuleList(CrossRead(dim, d_ev) for _ in range(depth))
        self.think = nn.ModuleList(CrossRead(dim, dim) for _ in range(depth))

    def forward(self, values, times, mask=None):
        ang = times[..., None] * self.freq
        ev = torch.cat((values, ang.sin(), ang.cos()), dim=-1)
        lat = self.latents.expand(values.shape[0], -1, -1)
        for read, think in zip(self.read, self.think):
            lat = lat + read(lat, ev, mask)
            lat = lat + think(lat)
        return lat
