"""Cross-encoder reranker layer in the spirit of PreTTR (MacAvaney et al. 2020).

The early layers must be computable for documents off-line, so the attention is split there:
query tokens see query tokens only and document tokens see document tokens only. In the later
layers (joined=True) everybody sees everybody. Padding is never seen by real tokens.

x     (B, L, D)
kind  (B, L) int64: 0 = padding, 1 = query token, 2 = document token; pairs differ in length
      and in where the query ends
->    (B, L, D), post-norm. In both kinds of layers padding sees padding, whose rows the
      caller throws away.
"""
import torch
from torch import nn


class SplitLayer(nn.Module):
    def __init__(self, D=32, heads=4, joined=False, p=0.1):
        super().__init__()
        self.heads, self.joined = heads, joined
        self.mha = nn.MultiheadAttention(D, heads, dropout=p, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Dropout(p), nn.Linear(4 * D, D))

    def blocked(self, kind):
        """(B * heads, L, L), True = may not look, as nn.MultiheadAttention wants it"""
        group = kind.clamp(max=1) if self.joined else kind
        differ = group[:, :, None] != group[:, None, :]
        return differ.repeat(self.heads, 1, 1)

    def forward(self, x, kind):
        y, _ = self.mha(x, x, x, attn_mask=self.blocked(kind), need_weights=False)
        x = self.ln1(x + y)
        return self.ln2(x + self.ff(x))
