import torch
from torch import nn


class Layer(nn.Module):
    """Causal self-attention layer with a residual connection."""

    def __init__(self, n_units, n_heads):
        super().__init__()
        self.n_units, self.n_heads = n_units, n_heads
        self.mix = nn.Linear(n_units, 3 * n_units)
        self.end = nn.Linear(n_units, n_units)

    def forward(self, h):
        b, t, u = h.shape
        q, k, v = self.mix(h).chunk(3, -1)
        q = q.reshape(b, self.n_heads, t, -1)
        k = k.reshape(b, self.n_heads, t, -1)
        v = v.reshape(b, self.n_heads, t, -1)
        g = q @ k.transpose(-1, -2)
        g = g.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        y = torch.softmax(g, -1) @ v
        return h + self.end(y.transpose(1, 2).reshape(b, t, u))
