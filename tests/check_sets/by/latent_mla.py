"""Multi-head latent attention (DeepSeek-V2), decode form, written to be read.

Cached per token are only the compressed latent c (rank r) and one rotary key
shared by all heads.  The up-projections of keys and values are *absorbed*: the
query is moved into latent space, and values are lifted after the weighted sum.
The score divisor is sqrt(d_nope + d_rope), the width of the un-absorbed query.
Rotary pairs are adjacent entries (0,1), (2,3), ...
"""
import torch
from torch import nn


def rope_pairs(x, positions, theta=10000.0):
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    ang = positions.to(x.dtype)[:, None] * inv
    if x.dim() == 4:
        ang = ang[:, None]                      # [T, 1, d/2] for [B, T, H, d]
    even, odd = x[..., 0::2], x[..., 1::2]
    out = torch.stack((even * ang.cos() - odd * ang.sin(),
                       even * ang.sin() + odd * ang.cos()), dim=-1)
    return out.flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self, dim=40, heads=4, d_nope=8, d_rope=4, d_v=6, rank=12):
        super().__init__()
        self.heads, self.d_nope, self.d_rope, self.d_v = heads, d_nope, d_rope, d_v
        self.w_q = nn.Linear(dim, heads * (d_nope + d_rope), bias=False)
        self.w_down = nn.Linear(dim, rank, bias=False)
        self.w_kr = nn.Linear(dim, d_rope, bias=False)
        self.w_uk = nn.Parameter(torch.randn(heads, d_nope, rank) * rank**-0.5)
        self.w_uv = nn.Parameter(torch.randn(heads, d_v, rank) * rank**-0.5)
        self.w_o = nn.Linear(heads * d_v, dim, bias=False)
        self.scale = (d_nope + d_rope) ** -0.5

    def forward(self, x, cache=None):
        """x [B, T, dim]; cache (latents [B, S, rank], rotary keys [B, S, d_rope])."""
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + T)

        q = self.w_q(x).view(B, T, self.heads, -1)
        q_nope, q_rope = q.split([self.d_nope, self.d_rope], dim=-1)
        q_rope = rope_pairs(q_rope, pos)

        c = self.w_down(x)
        kr = rope_pairs(self.w_kr(x), pos)
        if cache is not None:
            c = torch.cat([cache[0], c], dim=1)
            kr = torch.cat([cache[1], kr], dim=1)

        q_lat = torch.einsum("bthn,hnr->bthr", q_nope, self.w_uk)
        scores = torch.einsum("bthr,bsr->bhts", q_lat, c)
        scores = (scores + torch.einsum("bthp,bsp->bhts", q_rope, kr)) * self.scale

        S = c.shape[1]
        future = torch.ones(T, S, dtype=torch.bool).triu(S - T + 1)
        attn = scores.masked_fill(future, float("-inf")).softmax(dim=-1)

        o_lat = torch.einsum("bhts,bsr->bthr", attn, c)
        o = torch.einsum("bthr,hvr->bthv", o_lat, self.w_uv)
        return self.w_o(o.flatten(2)), (c, kr)
