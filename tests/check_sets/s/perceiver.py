import torch
from torch import nn


class FeedForward(nn.Sequential):
    def __init__(self, d, mult=2):
        super().__init__(nn.LayerNorm(d), nn.Linear(d, d * mult), nn.GELU(), nn.Linear(d * mult, d))


class CrossAttend(nn.Module):
    def __init__(self, d_latent, d_input, heads=1):
        super().__init__()
        self.norm_q = nn.LayerNorm(d_latent)
        self.norm_kv = nn.LayerNorm(d_input)
        self.mha = nn.MultiheadAttention(d_latent, heads, kdim=d_input, vdim=d_input, batch_first=True)

    def forward(self, z, x, valid=None):
        x = self.norm_kv(x)
        ignore = None if valid is None else valid.logical_not()
        return z + self.mha(self.norm_q(z), x, x, key_padding_mask=ignore, need_weights=False)[0]


class SelfAttend(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, z):
        y = self.norm(z)
        return z + self.mha(y, y, y, need_weights=False)[0]


class Perceiver(nn.Module):
    """Point clouds / audio frames of any length -> n_latents vectors.

    x      [batch, n, d_input]
    valid  [batch, n] bool, True for real points
    """

    def __init__(self, d_input=12, d_latent=32, n_latents=6, heads=4, depth=2):
        super().__init__()
        self.latents = nn.Parameter(0.02 * torch.randn(n_latents, d_latent))
        self.read = CrossAttend(d_latent, d_input)
        self.read_ff = FeedForward(d_latent)
        self.blocks = nn.ModuleList(
            nn.ModuleList([SelfAttend(d_latent, heads), FeedForward(d_latent)]) for _ in range(depth))

    def forward(self, x, valid=None):
        z = self.latents.expand(len(x), -1, -1)
        z = self.read(z, x, valid)
        z = z + self.read_ff(z)
        for attend, ff in self.blocks:
            z = attend(z)
            z = z + ff(z)
        return z
