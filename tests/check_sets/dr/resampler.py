"""Perceiver resampler (one layer) as used between a vision tower and a language model.

A fixed number of learned latents reads a variable number of visual tokens. Keys and
values come from the visual tokens AND the latents themselves, concatenated in this
order; queries from the latents only. There is no mask among the latents.

    vis      (B, N, D) visual features, padded to N
    keep     (B, N) bool, True = real feature; None: all real
    returns  (B, M, D), M = number of latents

The logits are q.k / sqrt(dim_head). Followed by a squared-ReLU MLP, residuals
around both.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Resampler(nn.Module):
    def __init__(self, dim, num_latents=8, dim_head=16, heads=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim) * 0.5)
        self.heads = heads
        self.norm_vis = nn.LayerNorm(dim)
        self.norm_lat = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)
        self.ff_norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, vis, keep=None):
        B, N, _ = vis.shape
        lat = self.latents.expand(B, -1, -1)
        vis, ln = self.norm_vis(vis), self.norm_lat(lat)

        q = self.to_q(ln)
        k, v = self.to_kv(torch.cat([vis, ln], dim=1)).chunk(2, dim=-1)
        q, k, v = (t.view(B, t.size(1), self.heads, -1).transpose(1, 2) for t in (q, k, v))

        allow = None
        if keep is not None:
            # latents can always be read
            allow = F.pad(keep, (0, ln.size(1)), value=True)[:, None, None, :]
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        lat = lat + self.to_out(o.transpose(1, 2).flatten(2))
        return lat + self.down(F.relu(self.up(self.ff_norm(lat))) ** 2)
