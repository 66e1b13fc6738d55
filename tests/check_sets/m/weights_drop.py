import torch
from torch import nn


class WeightsToo(nn.Module):
    """Returns the output and the attention weights (rows that sum to one)."""

    def __init__(self, dim=16, dropout=0.5):
        super().__init__()
        self.scale = dim ** -0.5
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v):
        w = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * self.scale, dim=-1)
        w = self.dropout(w)
        out = torch.bmm(w, v)
        return out, w
