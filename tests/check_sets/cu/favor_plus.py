"""FAVOR+ (Performer) with positive random features.

softmax(q.k / sqrt d) is approximated by phi(q).phi(k), where
phi(x) = exp(Wx' - |x'|^2 / 2) / sqrt(m), x' = x / d^(1/4), rows of W orthogonal, of chi(d) norm.
"""
import torch
from torch import nn


def ortho(m, d, gen=None):
    blocks = []
    while sum(b.size(0) for b in blocks) < m:
        blocks.append(torch.linalg.qr(torch.randn(d, d, generator=gen))[0].T)
    w = torch.cat(blocks)[:m]
    return w * torch.randn(m, d, generator=gen).norm(dim=1, keepdim=True)


class FavorPlus(nn.Module):
    """x [B, L, D] -> [B, L, D]; causal: prefix sums, position i uses keys 0..i."""

    def __init__(self, D=32, heads=4, m=40, causal=True, seed=0):
        super().__init__()
        self.h, self.d, self.causal = heads, D // heads, causal
        self.qkv = nn.Linear(D, 3 * D)
        self.o = nn.Linear(D, D)
        self.register_buffer("W", ortho(m, self.d, torch.Generator().manual_seed(seed)))

    def phi(self, x, query):
        x = x * self.d ** -0.25
        e = x @ self.W.T - x.square().sum(-1, keepdim=True) / 2
        # stabilisers: both cancel in num/den (per row for q, one per head for k)
        top = e.amax(-1, keepdim=True) if query else e.amax((-1, -2), keepdim=True)
        return ((e - top.detach()).exp() + 1e-6) / self.W.size(0) ** 0.5

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        q, k = self.phi(q, True), self.phi(k, False)
        kv = k.unsqueeze(-1) * v.unsqueeze(-2)              # B h L m d
        if self.causal:
            kv, z = kv.cumsum(2), k.cumsum(2)
        else:
            kv, z = kv.sum(2, keepdim=True), k.sum(2, keepdim=True)
        num = (q.unsqueeze(-2) @ kv).squeeze(-2)
        den = (q * z).sum(-1, keepdim=True)
        return self.o((num / den).transpose(1, 2).reshape(B, L, D))
