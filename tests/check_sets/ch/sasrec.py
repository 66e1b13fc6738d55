"""SASRec: self-attentive sequential recommendation (Kang & McAuley, 2018)."""
import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
                                 nn.Linear(hidden, hidden), nn.Dropout(dropout))

    def forward(self, x):
        return x + self.net(x)


class SASRec(nn.Module):
    """Predicts the next item at each step of the history.

    item_seq: LongTensor (batch, maxlen), items from 1 to num_items in order of time,
    padded on the right with 0. A step may only use the items up to itself.
    Returns scores over items, (batch, maxlen, num_items + 1).
    """

    def __init__(self, num_items, maxlen=20, hidden=32, num_blocks=2, num_heads=2, dropout=0.2):
        super().__init__()
        self.hidden = hidden
        self.item_emb = nn.Embedding(num_items + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden)
        self.emb_dropout = nn.Dropout(dropout)
        self.attn_norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(num_blocks))
        self.attns = nn.ModuleList(
            nn.MultiheadAttention(hidden, num_heads, dropout, batch_first=True)
            for _ in range(num_blocks)
        )
        self.ffn_norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(num_blocks))
        self.ffns = nn.ModuleList(PointWiseFeedForward(hidden, dropout) for _ in range(num_blocks))
        self.last_norm = nn.LayerNorm(hidden)

    def forward(self, item_seq):
        n = item_seq.shape[1]
        x = self.item_emb(item_seq) * self.hidden ** 0.5
        x = x + self.pos_emb(torch.arange(n, device=item_seq.device))
        x = self.emb_dropout(x)

        # True = not allowed, for both masks
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool, device=item_seq.device), diagonal=1)
        padding = item_seq.eq(0)
        padding[:, 0] = False      # keep one key so an empty history gives no NaN
        for norm, attn, ffn_norm, ffn in zip(self.attn_norms, self.attns, self.ffn_norms, self.ffns):
            q = norm(x)
            y, _ = attn(q, x, x, attn_mask=causal, key_padding_mask=padding, need_weights=False)
            x = ffn(ffn_norm(q + y))
        return self.last_norm(x) @ self.item_emb.weight.t()
