"""Sliding-window attention with learned sinks, in the manner of gpt-oss.

Every head owns one extra logit ("sink"). It takes part in the softmax but has no
value, so a head that finds nothing of interest can put its weight there; the
weights over the real keys then sum to less than one. A query sees the last
`window` positions, itself included. Layout is [batch, seq, heads, dim].
"""
import torch
from torch import nn


def sink_attention(q, k, v, sinks, window):
    """q, k, v: [B, T, H, D];  sinks: [H];  window: int or None (full causal)."""
    B, T, H, D = q.shape
    logits = torch.einsum("bqhd,bkhd->bhqk", q, k) * D ** -0.5
    pos = torch.arange(T, device=q.device)
    gap = pos[:, None] - pos[None, :]
    allowed = gap >= 0
    if window is not None:
        allowed = allowed & (gap < window)
    logits = logits.float().masked_fill(~allowed, float("-inf"))
    extra = sinks.float().view(1, H, 1, 1).expand(B, H, T, 1)
    weights = torch.cat([logits, extra], dim=-1).softmax(dim=-1)[..., :T]
    return torch.einsum("bhqk,bkhd->bqhd", weights.to(v.dtype), v)


class SinkBlock(nn.Module):
    """Pre-norm residual block; even layers are windowed, odd layers see everything."""

    def __init__(self, dim=32, heads=4, layer=0, window=4):
        super().__init__()
        self.heads = heads
        self.window = window if layer % 2 == 0 else None
        self.norm = nn.RMSNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.sinks = nn.Parameter(torch.randn(heads))

    def forward(self, x):
        h = self.norm(x)
        shape = (*x.shape[:2], self.heads, -1)
        y = sink_attention(self.q(h).view(shape), self.k(h).view(shape), self.v(h).view(shape),
                           self.sinks, self.window)
        return x + self.o(y.flatten(2))


class SinkLM(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=4, depth=2, window=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(SinkBlock(dim, heads, i, window) for i in range(depth))
        self.norm = nn.RMSNorm(dim)
        self.out = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.out(self.norm(x))
