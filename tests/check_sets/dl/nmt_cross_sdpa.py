"""Cross-attention of a translation model, source projected once per sentence.

encode_source() is called once; step() then for every target token.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CrossReader(nn.Module):
    """pad (B, S) bool: True = padding, not to be attended to (every sentence has at least
    one real token).  dropout: on the attention weights while training; at inference the
    module is deterministic."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.h = n_heads
        self.dropout = dropout
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def heads(self, x):
        b, n, c = x.shape
        return x.view(b, n, self.h, c // self.h).transpose(1, 2)

    def encode_source(self, src, pad):
        """src (B, S, d_model), pad (B, S) -> what step() wants."""
        return self.heads(self.wk(src)), self.heads(self.wv(src)), pad

    def step(self, y, source):
        """y (B, T, d_model), T new target states (1 when generating) -> (B, T, d_model)."""
        k, v, pad = source
        q = self.heads(self.wq(y))
        o = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=pad[:, None, None, :],
            dropout_p=self.dropout,
        )
        return self.wo(o.transpose(1, 2).flatten(2))

    def forward(self, y, src, pad):
        """Teacher forcing: y (B, T, d_model), all target states at once."""
        return self.step(y, self.encode_source(src, pad))
