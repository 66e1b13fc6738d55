"""Causal linear attention with a constant-size memory (Katharopoulos et al.).

    phi(x) = elu(x) + 1
    S_t = S_{t-1} + phi(k_t) v_t^T
    z_t = z_{t-1} + phi(k_t)
    o_t = phi(q_t)^T S_t / (phi(q_t)^T z_t)

There is no softmax and no 1/sqrt(d): weights are phi(q).phi(k), normalised to
sum to one over the tokens seen so far.  ``forward`` may be called on segments
of any length; hand the returned state back with the next segment.
"""
import torch
from torch import nn
import torch.nn.functional as F


class LinearMemoryAttention(nn.Module):

    def __init__(self, dim=48, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def empty_state(self, batch, like):
        d = self.to_qkv.in_features // self.heads
        S = like.new_zeros(batch, self.heads, d, d)
        z = like.new_zeros(batch, self.heads, d)
        return S, z

    def forward(self, x, state=None):
        b, t, c = x.shape
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        # each (b, h, t, d)
        q, k, v = [u.reshape(b, t, self.heads, -1).transpose(1, 2) for u in (q, k, v)]
        q = F.elu(q) + 1
        k = F.elu(k) + 1

        if state is None:
            state = self.empty_state(b, x)
        S0, z0 = state

        # running sums over the segment, started from the memory handed in
        S = S0[:, :, None] + torch.cumsum(k[..., :, None] * v[..., None, :], dim=2)
        z = z0[:, :, None] + torch.cumsum(k, dim=2)

        num = torch.einsum("bhtd,bhtde->bhte", q, S)
        den = (q * z).sum(-1, keepdim=True)
        out = num / den
        out = out.transpose(1, 2).reshape(b, t, c)
        return self.proj(out), (S[:, :, -1], z[:, :, -1])


class LinearMemoryBlock(nn.Module):
    """Pre-norm residual block around the attention above."""

    def __init__(self, dim=48, heads=4, mult=2):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = LinearMemoryAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, mult * dim), nn.GELU(),
                                nn.Linear(mult * dim, dim))

    def forward(self, x, state=None):
        y, state = self.attn(self.n1(x), state)
        x = x + y
        return x + self.ff(self.n2(x)), state
