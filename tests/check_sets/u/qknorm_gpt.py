import torch
import torch.nn as nn
import torch.nn.functional as F


class QKNormAttention(nn.Module):
    """Query-key normalisation (Henry et al., 2020): the queries and keys of each head get unit
    length, and a learned g per head takes the place of 1/sqrt(d). Causal.

    x: (B, T, dim)
    """

    def __init__(self, dim=32, heads=4, g=5.0):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.g = nn.Parameter(torch.full((heads, 1, 1), g))
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, D // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = F.normalize(q, dim=2), F.normalize(k, dim=2)
        att = self.g * (q @ k.transpose(2, 3))
        att = att.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        return self.out((F.softmax(att, dim=-1) @ v).transpose(1, 2).reshape(B, T, D))
