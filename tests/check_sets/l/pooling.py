import torch
import torch.nn as nn


class AttentivePooling(nn.Module):
    """Sentence vector = weighted mean of the token vectors.

    tokens: (batch, length, dim). valid: (batch, length), 1 for tokens and 0 for padding.
    """

    def __init__(self, dim, hidden=16):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))

    def forward(self, tokens, valid):
        e = self.score(tokens).squeeze(-1)
        e = e.masked_fill(valid == 0, float("-inf"))
        a = torch.softmax(e, dim=-1)
        return (a.unsqueeze(-1) * tokens).sum(dim=1)
