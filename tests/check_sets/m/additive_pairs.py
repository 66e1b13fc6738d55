import torch
from torch import nn


class AdditiveAttention(nn.Module):
    """Bahdanau scores for all pairs of queries (B, T, dim) and keys (B, S, dim)."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim, bias=False)
        self.key_proj = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.rand(dim).uniform_(-0.1, 0.1))
        self.score_proj = nn.Linear(dim, 1)

    def forward(self, query, key, value):
        hidden = torch.tanh(self.query_proj(query) + self.key_proj(key) + self.bias)
        score = self.score_proj(hidden).squeeze(-1)
        attn = torch.softmax(score, -1)
        return torch.bmm(attn.unsqueeze(1), value).squeeze(1)
