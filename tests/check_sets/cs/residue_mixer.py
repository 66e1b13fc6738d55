import torch
from torch import nn


class ResidueAttention(nn.Module):
    """Multi-head self-attention between the residues of each protein, [B, R, C] -> [B, R, C]."""

    def __init__(self, channels: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = channels // n_heads
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.output = nn.Linear(channels, channels)

    def _fold(self, t):
        B, R, _ = t.shape
        t = t.reshape(B, R, self.n_heads, self.d_head).permute(0, 2, 1, 3)
        return t.reshape(B * self.n_heads, R, self.d_head)

    def forward(self, residues):
        B, R, C = residues.shape
        q = self._fold(self.query(residues))
        k = self._fold(self.key(residues))
        v = self._fold(self.value(residues))
        scores = torch.bmm(q, k.transpose(1, 2)) / self.d_head ** 0.5
        context = torch.bmm(scores.softmax(dim=-1), v)
        context = context.reshape(self.n_heads, B, R, self.d_head)
        context = context.permute(1, 2, 0, 3).reshape(B, R, C)
        return self.output(context)
