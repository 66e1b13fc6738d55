import torch
from torch import nn


class NextItem(nn.Module):
    """Scores the next item for each step of a shopping session.

    items (B, L) with 0 = padding, which may stand on either side. A step sees itself and
    earlier real items only. States at padded steps are zero. Returns states (B, L, dim).
    """

    def __init__(self, n_items, dim=32, heads=4, max_len=100, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.place = nn.Embedding(max_len, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, items):
        B, L = items.shape
        real = items != 0
        x = self.drop(self.item(items) + self.place.weight[:L])
        future = torch.ones(L, L, dtype=torch.bool, device=items.device).triu(1)
        block = future[None] | ~real[:, None, :]
        # a padded step keeps itself, so that no row of the softmax is empty
        block = block & ~torch.eye(L, dtype=torch.bool, device=items.device)
        block = block.repeat_interleave(self.heads, dim=0)
        h = self.n1(x)
        y, _ = self.att(h, h, h, attn_mask=block, need_weights=False)
        x = x + self.drop(y)
        x = x + self.drop(self.ffn(self.n2(x)))
        return x * real.unsqueeze(-1)
