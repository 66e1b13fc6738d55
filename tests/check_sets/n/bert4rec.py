import torch
import torch.nn as nn


class HistoryEncoder(nn.Module):
    """Encodes what a user bought.  items (B, L) of item ids, 0 where the history is shorter than L; those places are not attended to."""

    def __init__(self, n_items=50, dim=16, heads=2):
        super().__init__()
        self.emb = nn.Embedding(n_items + 1, dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln = nn.LayerNorm(dim)

    def forward(self, items):
        h = self.emb(items)
        padding = items != 0
        y, _ = self.attn(h, h, h, key_padding_mask=padding)
        return self.ln(h + y)
