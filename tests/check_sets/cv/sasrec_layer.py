import torch
import torch.nn as nn


class SASRecLayer(nn.Module):
    """Sequential recommender block (pre-norm on the queries, as in pmixer/SASRec.pytorch).

    items: (B, L) ids, 0 = padding (on the left). Output (B, L, D): state after position l, made
    of the items 0..l only; it is used to score the item l+1. Padded positions are set to zero
    rather than masked, like in the reference implementation.
    """

    def __init__(self, n_items=50, L=12, D=16, heads=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, D, padding_idx=0)
        self.pos = nn.Embedding(L, D)
        self.drop = nn.Dropout(p)
        self.qn, self.fn = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mha = nn.MultiheadAttention(D, heads, dropout=p, batch_first=True)
        self.ff = nn.Sequential(nn.Conv1d(D, D, 1), nn.Dropout(p), nn.ReLU(), nn.Conv1d(D, D, 1), nn.Dropout(p))

    def forward(self, items):
        B, L = items.shape
        x = self.item(items) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos(torch.arange(L, device=items.device)))
        real = (items != 0).unsqueeze(-1)
        x = x * real
        # True = may not be looked at
        block = torch.ones(L, L, dtype=torch.bool, device=items.device).triu(diagonal=2)
        q = self.qn(x)
        x = q + self.mha(q, x, x, attn_mask=block, need_weights=False)[0]
        x = self.fn(x)
        x = x + self.ff(x.transpose(1, 2)).transpose(1, 2)
        return x * real
