"""Causal linear attention ("Transformers are RNNs").

The kernel phi(x) = elu(x) + 1 takes the place of the exponential, so there
is no softmax here: the row sums of phi(q) phi(k)^T are divided out instead.
Training runs over chunks with a carried state, decoding keeps (S, z) only.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

State = Tuple[torch.Tensor, torch.Tensor]


def phi(x):
    return F.elu(x) + 1.0


class LinearAttention(nn.Module):
    def __init__(self, dim: int = 24, heads: int = 3, chunk: int = 4, eps: float = 1e-6):
        super().__init__()
        self.heads, self.hd, self.chunk, self.eps = heads, dim // heads, chunk, eps
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def empty_state(self, x) -> State:
        b = x.size(0)
        return (x.new_zeros(b, self.heads, self.hd, self.hd), x.new_zeros(b, self.heads, self.hd))

    def _chunk(self, q, k, v, state: State):
        S, z = state
        t = q.size(2)
        # keys of earlier chunks come through the state, the rest is a small triangle
        inner = torch.einsum("bhid,bhjd->bhij", q, k).tril()
        num = torch.einsum("bhid,bhde->bhie", q, S) + inner @ v
        den = torch.einsum("bhid,bhd->bhi", q, z) + inner.sum(-1)
        S = S + torch.einsum("bhjd,bhje->bhde", k, v)
        z = z + k.sum(2)
        return num / (den[..., None] + self.eps), (S, z)

    def forward(self, x, state: Optional[State] = None):
        """x [B, T, D] -> (y [B, T, D], state); pass the state on to continue."""
        b, t, d = x.shape
        q, k, v = (a.view(b, t, self.heads, self.hd).transpose(1, 2)
                   for a in self.qkv(x).chunk(3, dim=-1))
        q, k = phi(q), phi(k)
        state = state if state is not None else self.empty_state(x)
        outs = []
        for i in range(0, t, self.chunk):
            s = slice(i, i + self.chunk)
            y, state = self._chunk(q[:, :, s], k[:, :, s], v[:, :, s], state)
            outs.append(y)
        y = torch.cat(outs, dim=2).transpose(1, 2).reshape(b, t, d)
        return self.out(y), state
