"""Encoder layer after "The Annotated Transformer", trimmed for our tutorial.

src_mask is [batch, length], 1 for words and 0 for padding.  Dropout sits on the
attention weights and after the output projection; it acts in training only.
"""
import math

import torch
from torch import nn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.dropout = nn.Dropout(p=dropout)
        self.attn = None

    def attention(self, query, key, value, mask):
        p_attn = (query @ key.transpose(-2, -1) / math.sqrt(self.d_k)).softmax(dim=-1)
        if mask is not None:
            p_attn = p_attn * mask
        self.attn = p_attn
        if not self.training:
            self.dropout.p = 0.0
        return self.dropout(p_attn) @ value

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        if mask is not None:
            mask = mask[:, None, None, :].to(query.dtype)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x = self.attention(query, key, value, mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class EncoderLayer(nn.Module):
    def __init__(self, size=32, heads=4, d_ff=64, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadedAttention(heads, size, dropout)
        self.feed_forward = nn.Sequential(nn.Linear(size, d_ff), nn.ReLU(), nn.Linear(d_ff, size))
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(2)])
        self.residual_dropout = nn.Dropout(dropout)

    def forward(self, x, src_mask=None):
        y = self.norms[0](x)
        x = x + self.residual_dropout(self.self_attn(y, y, y, src_mask))
        y = self.norms[1](x)
        return x + self.residual_dropout(self.feed_forward(y))


if __name__ == "__main__":
    layer = EncoderLayer()
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    print(layer(torch.randn(2, 4, 32), mask).shape)
