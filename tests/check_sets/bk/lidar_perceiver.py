"""
Perceiver encoder for LiDAR sweeps
==================================

A sweep has a varying number of returns; sweeps are padded to the longest one of
the batch.  A fixed array of latents reads the returns by cross attention, so the
cost is linear in the number of returns.

``valid`` is True for a real return, everywhere in this package.
"""

import torch
from torch import nn


def fourier(xyz: torch.Tensor, n_bands: int = 4, max_range: float = 80.0) -> torch.Tensor:
    f = 2.0 ** torch.arange(n_bands, dtype=xyz.dtype, device=xyz.device) * torch.pi
    a = (xyz / max_range)[..., None] * f
    return torch.cat([xyz, a.sin().flatten(-2), a.cos().flatten(-2)], dim=-1)


def collate(sweeps):
    """List of [n_i, 4] (x, y, z, intensity) -> points [B, N, 4], valid [B, N]."""
    n = max(len(s) for s in sweeps)
    pts = torch.zeros(len(sweeps), n, 4)
    valid = torch.zeros(len(sweeps), n, dtype=torch.bool)
    for i, s in enumerate(sweeps):
        pts[i, : len(s)] = s
        valid[i, : len(s)] = True
    return pts, valid


class Reader(nn.Module):
    """Pre-norm cross attention of latents [B, M, D] to inputs [B, N, E]."""

    def __init__(self, dim: int, in_dim: int, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.ln_q = nn.LayerNorm(dim)
        self.ln_kv = nn.LayerNorm(in_dim)
        self.mha = nn.MultiheadAttention(
            dim, heads, dropout=dropout, kdim=in_dim, vdim=in_dim, batch_first=True
        )
        self.ff = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, latents, inputs, valid=None):
        kv = self.ln_kv(inputs)
        # torch: True in key_padding_mask means "ignore"
        ignore = None if valid is None else ~valid
        read, _ = self.mha(self.ln_q(latents), kv, kv, key_padding_mask=ignore, need_weights=False)
        latents = latents + read
        return latents + self.ff(latents)


class LidarPerceiver(nn.Module):
    def __init__(self, n_latents: int = 8, dim: int = 32, n_reads: int = 2, heads: int = 4):
        super().__init__()
        in_dim = 3 + 2 * 3 * 4 + 1
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.02)
        self.reader = Reader(dim, in_dim, heads)           # weights shared between reads
        self.n_reads = n_reads
        self.self_block = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True
        )

    def forward(self, points, valid):
        x = torch.cat([fourier(points[..., :3]), points[..., 3:]], dim=-1)
        z = self.latents.expand(points.size(0), -1, -1)
        for _ in range(self.n_reads):
            z = self.reader(z, x, valid)
            z = self.self_block(z)
        return z
