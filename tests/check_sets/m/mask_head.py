import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionMap(nn.Module):
    """Multi-head attention weights of queries (B, N, C) over keys (B, L, C); returns only the softmax, (B, N, heads, L)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_linear = nn.Linear(dim, dim)
        self.k_linear = nn.Linear(dim, dim)
        self.normalize_fact = float(dim / num_heads) ** -0.5

    def forward(self, q, k):
        qh = self.q_linear(q).view(q.shape[0], q.shape[1], self.num_heads, -1)
        kh = self.k_linear(k).view(k.shape[0], k.shape[1], self.num_heads, -1)
        weights = torch.einsum("bqnc,bknc->bqnk", qh * self.normalize_fact, kh)
        return F.softmax(weights.flatten(2), dim=-1).view(weights.size())
