"""EEG encoder: a handful of latents read a long, multi-channel recording."""
import torch
from torch import nn
import torch.nn.functional as F


class LatentReader(nn.Module):
    """signal (B, samples, channels) -> latents (B, n_latents, dim).

    Queries and keys have unit length; the sharpness of each head is learned (in log space,
    capped at 100).
    """

    def __init__(self, channels=19, dim=32, n_latents=6, heads=4):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.5)
        self.embed = nn.Linear(channels, dim)
        self.norm_l, self.norm_s = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.log_sharp = nn.Parameter(torch.full((heads, 1, 1), 2.3))
        self.o = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def split(self, z):
        return z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, signal):
        b = signal.shape[0]
        lat = self.latents.expand(b, -1, -1)
        src = self.norm_s(self.embed(signal))
        k, v = self.kv(src).chunk(2, dim=-1)
        q = F.normalize(self.split(self.q(self.norm_l(lat))), dim=-1)
        k = F.normalize(self.split(k), dim=-1)
        sharp = self.log_sharp.exp().clamp(max=100.0)
        w = (sharp * (q @ k.transpose(-2, -1))).softmax(dim=-1)
        y = (w @ self.split(v)).transpose(1, 2).flatten(2)
        lat = lat + self.o(y)
        return lat + self.ff(lat)
