import torch
from torch import nn


class AttnProbs(nn.Module):
    """Returns (output, attention probabilities)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        split = lambda z: z.view(z.shape[0], z.shape[1], self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        attn = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        probs = attn.softmax(-1)
        out = (probs @ v).transpose(1, 2).flatten(2)
        return out, attn
