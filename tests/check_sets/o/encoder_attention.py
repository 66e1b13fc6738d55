import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderAttention(nn.Module):
    """x: (B, T, dim); q, k and v have a weight matrix each"""

    def __init__(self, dim, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def _heads(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x):
        q = self._heads(self.query(x))
        k = self._heads(self.query(x))
        v = self._heads(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).flatten(2))
