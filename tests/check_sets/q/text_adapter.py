import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class AdapterCrossAttention(nn.Module):
    """A zero-gated adapter: hidden states (B, T, dim) look at prompt tokens (B, P, dim)."""

    def __init__(self, dim, heads=2, gate=0.5):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.to_out = nn.Linear(dim, dim)
        self.gate = nn.Parameter(torch.tensor(gate))

    def _heads(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, hidden, prompt):
        q = self._heads(self.to_q(hidden))
        k = self._heads(self.to_q(prompt))
        v = self._heads(self.to_v(prompt))
        y = scaled_dot_product_attention(q, k, v)
        return hidden + self.gate.tanh() * self.to_out(y.transpose(1, 2).flatten(2))
