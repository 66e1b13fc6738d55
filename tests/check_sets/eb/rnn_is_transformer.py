"""Transformers are RNNs, the 60-line version (Katharopoulos et al. 2020) with both faces.

Kernel feature map  f(x) = elu(x) + 1;   for every head

    out_i = f(q_i)^T  sum_{j<=i} f(k_j) v_j^T   /   f(q_i)^T sum_{j<=i} f(k_j)

`forward` is the parallel (training) form, `step` the recurrent one; they give the same numbers.
No softmax and no 1/sqrt(d) on purpose: the normaliser is the denominator above.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def f(x):
    return F.elu(x) + 1


class LinCausal(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        assert d_model % heads == 0
        self.h = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.o = nn.Linear(d_model, d_model)

    def heads_of(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.h, -1)) for t in (q, k, v))      # (..., H, d)
        return f(q), f(k), v

    def forward(self, x):
        """x (B, L, D) -> (B, L, D); position i sees 0..i."""
        q, k, v = self.heads_of(x)
        S = torch.einsum("blhd,blhe->blhde", k, v).cumsum(1)
        z = k.cumsum(1)
        num = torch.einsum("blhd,blhde->blhe", q, S)
        den = torch.einsum("blhd,blhd->blh", q, z)
        return self.o((num / den.unsqueeze(-1)).flatten(-2))

    def step(self, x, state=None):
        """x (B, D), one token.  state = (S (B,H,d,d), z (B,H,d)) or None at the start.

        Returns (y (B, D), new state).
        """
        q, k, v = self.heads_of(x)
        kv = k.unsqueeze(-1) * v.unsqueeze(-2)
        S, z = (kv, k) if state is None else (state[0] + kv, state[1] + k)
        y = (q.unsqueeze(-1) * S).sum(-2) / (q * z).sum(-1, keepdim=True)
        return self.o(y.flatten(-2)), (S, z)
