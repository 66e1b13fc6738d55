"""Cross-attention of Latent Diffusion (Rombach et al., 2022), stripped of einops.

Image tokens read the prompt:  Attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V with
Q = W_Q phi(z), K = W_K tau(y), V = W_V tau(y), eq. (5.) and appendix E.2.1.
"""
import torch
from torch import nn


def fold(t, h):
    """b n (h d) -> (b h) n d"""
    b, n, c = t.shape
    return t.reshape(b, n, h, c // h).permute(0, 2, 1, 3).reshape(b * h, n, c // h)


def unfold(t, h):
    """(b h) n d -> b n (h d)"""
    bh, n, d = t.shape
    return t.reshape(bh // h, h, n, d).permute(0, 2, 1, 3).reshape(bh // h, n, h * d)


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, query_dim), nn.Dropout(dropout))

    def forward(self, x, context=None, mask=None):
        """x (B, HW, query_dim) image tokens; context (B, L, context_dim) prompt, or None
        for self-attention; mask (B, L) bool, True = prompt token of that image, False =
        padding (prompts in one batch have different lengths). -> (B, HW, query_dim)"""
        h = self.heads
        context = x if context is None else context
        q, k, v = (fold(t, h) for t in (self.to_q(x), self.to_k(context), self.to_v(context)))
        sim = torch.einsum("bid,bjd->bij", q, k) * self.scale
        if mask is not None:
            mask = mask.flatten(1).repeat(h, 1).unsqueeze(1)
            sim.masked_fill_(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("bij,bjd->bid", attn, v)
        return self.to_out(unfold(out, h))
