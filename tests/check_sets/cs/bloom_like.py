import math
import torch
from torch import nn


class AlibiSelfAttention(nn.Module):
    """Causal self-attention with the linear biases of the ALiBi paper.

    n_heads must be a power of two; the slopes are the paper's geometric sequence.
    """

    def __init__(self, hidden, n_heads):
        super().__init__()
        assert n_heads & (n_heads - 1) == 0
        self.n_heads = n_heads
        self.head_dim = hidden // n_heads
        self.in_proj = nn.Linear(hidden, 3 * hidden)
        self.out_proj = nn.Linear(hidden, hidden)
        h = torch.arange(n_heads, dtype=torch.float32)
        self.register_buffer("m", torch.pow(2.0, -8.0 * h / n_heads))

    def forward(self, hidden_states):
        bsz, seq, hidden = hidden_states.shape
        q, k, v = self.in_proj(hidden_states).chunk(3, dim=-1)
        q, k, v = (t.view(bsz, seq, self.n_heads, self.head_dim).transpose(1, 2) for t in (q, k, v))
        pos = torch.arange(seq, device=hidden_states.device)
        dist = pos[:, None] - pos[None, :]
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        scores = scores - self.m[:, None, None] * dist
        scores = scores.masked_fill(dist < 0, float("-inf"))
        ctx = torch.softmax(scores, dim=-1) @ v
        return self.out_proj(ctx.transpose(1, 2).reshape(bsz, seq, hidden))
