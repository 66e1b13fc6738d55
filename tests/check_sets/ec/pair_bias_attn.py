"""Single-representation attention with pair bias (AlphaFold 3, algorithm 24).

a     (B, N, c_a)       token representation
z     (B, N, N, c_z)    pair representation, gives one bias per head
mask  (B, N)            1.0 = real token, 0.0 = padding (at least one real token)

A real token distributes its whole attention (weights summing to 1) over the real tokens.
Output (B, N, c_a), gated by a sigmoid of the query token.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn


class AttentionPairBias(nn.Module):
    """q carries a bias term, k and v do not; see the paper."""

    def __init__(self, c_a: int, c_z: int, n_head: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.n_head = n_head
        self.c = c_a // n_head
        self.norm_a = nn.LayerNorm(c_a, eps=eps)
        self.norm_z = nn.LayerNorm(c_z, eps=eps)
        self.linear_q = nn.Linear(c_a, c_a, bias=True)
        self.linear_k = nn.Linear(c_a, c_a, bias=False)
        self.linear_v = nn.Linear(c_a, c_a, bias=False)
        self.linear_b = nn.Linear(c_z, n_head, bias=False)
        self.linear_g = nn.Linear(c_a, c_a, bias=False)
        self.linear_o = nn.Linear(c_a, c_a, bias=False)

    def _heads(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.n_head, self.c))

    def forward(self, a: Tensor, z: Tensor, mask: Tensor) -> Tensor:
        a = self.norm_a(a)
        q = self._heads(self.linear_q(a))
        k = self._heads(self.linear_k(a))
        v = self._heads(self.linear_v(a))
        g = torch.sigmoid(self.linear_g(a))
        bias = self.linear_b(self.norm_z(z)).permute(0, 3, 1, 2)       # (B, h, N, N)

        logits = torch.einsum("bihc,bjhc->bhij", q, k) / self.c ** 0.5 + bias
        attn = torch.softmax(logits, dim=-1)
        attn = attn * mask[:, None, None, :]
        o = torch.einsum("bhij,bjhc->bihc", attn, v).flatten(-2)
        return self.linear_o(g * o)
