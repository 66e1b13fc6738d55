import torch
from torch import nn


class BasketSASRec(nn.Module):
    """Self-attentive next-item model for a grocery shop.

    items: (batch, length) ids, 0 = padding, always at the END of a history; every
    history has at least one item. Item t is predicted from items before it only,
    so attention is causal, and padding is never attended to by a real item.
    """

    def __init__(self, n_items=100, hidden=32, max_len=20, n_heads=2, n_blocks=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.pos = nn.Embedding(max_len, hidden)
        self.drop = nn.Dropout(p)
        self.ln_a = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(n_blocks))
        self.mha = nn.ModuleList(
            nn.MultiheadAttention(hidden, n_heads, dropout=p, batch_first=True) for _ in range(n_blocks)
        )
        self.ln_f = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(n_blocks))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(p), nn.Linear(hidden, hidden))
            for _ in range(n_blocks)
        )
        self.last = nn.LayerNorm(hidden)

    def encode(self, items):
        L = items.shape[1]
        pad = items.eq(0)
        x = self.item(items) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos.weight[:L])
        x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        later = torch.triu(torch.ones(L, L, dtype=torch.bool, device=items.device), diagonal=1)
        for ln_a, mha, ln_f, ffn in zip(self.ln_a, self.mha, self.ln_f, self.ffn):
            z = ln_a(x)
            a, _ = mha(z, z, z, attn_mask=later, key_padding_mask=pad, need_weights=False)
            x = x + self.drop(a)
            x = x + ffn(ln_f(x))
            x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        return self.last(x)

    def forward(self, items):
        """Place t scores item t + 1: (batch, length, n_items + 1)."""
        return self.encode(items) @ self.item.weight.T
