import math

import torch
from torch import nn


def build_alibi_slopes(n_heads):
    """Press et al.: a geometric sequence that starts at 2^(-8/n) with that same ratio (n a power of two)."""
    base = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([base ** h for h in range(n_heads)])


class BloomAttention(nn.Module):
    """Causal self-attention with ALiBi biases."""

    def __init__(self, hidden_size=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden_size // n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        b, n, c = x.shape
        fused = self.query_key_value(x).view(b, n, self.n_head, 3, self.head_dim)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        pos = torch.arange(n)
        alibi = build_alibi_slopes(self.n_head).to(x)[:, None, None] * (pos[None, :] - pos[:, None]).to(x)
        scores = self.inv_norm_factor * (q @ k.transpose(-1, -2)) + alibi
        scores = scores.masked_fill(pos[None, :] > pos[:, None], torch.finfo(x.dtype).min)
        y = scores.softmax(-1) @ v
        return self.dense(y.transpose(1, 2).reshape(b, n, c))
