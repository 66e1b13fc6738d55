"""Small MPT clone trained on recipes."""
import torch
import torch.nn as nn


class ALiBiAttention(nn.Module):
    """Causal multi-head attention with linear biases; heads must be a power of two.

    x: (batch, seq, dim). Head h = 1..n has the slope 2^(-8h/n); the bias is -slope * (i - j).
    Scores are q.k / sqrt(head_dim) + bias. There are no position embeddings.
    """

    def __init__(self, dim=32, n_heads=4):
        super().__init__()
        self.n, self.hd = n_heads, dim // n_heads
        self.Wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.scale = self.hd ** -0.5
        h = torch.arange(n_heads)
        self.register_buffer("m", 2.0 ** (-8.0 * h / n_heads))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.Wqkv(x).split(c, dim=2)
        q, k, v = [z.reshape(b, t, self.n, self.hd).transpose(1, 2) for z in (q, k, v)]
        pos = torch.arange(t, device=x.device)
        dist = (pos[:, None] - pos[None, :]).to(x.dtype)
        scores = q @ k.transpose(-2, -1) / self.scale
        scores = scores - self.m[:, None, None] * dist
        scores = scores.masked_fill(dist < 0, float("-inf"))
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
