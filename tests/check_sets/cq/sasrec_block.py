"""SASRec (Kang & McAuley, 2018) -- self-attentive sequential recommendation."""
import torch
import torch.nn as nn


class SASRec(nn.Module):
    """Next-item model. Sequences are LEFT padded with id 0, e.g. [0, 0, 17, 4, 9].

    A position attends to itself and to earlier real items, never to padding or to later items.
    """

    def __init__(self, n_items=50, max_len=12, dim=24, heads=2, layers=2, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.item_emb = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos_emb = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(dropout)
        self.attn_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.attns = nn.ModuleList(
            nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
            for _ in range(layers)
        )
        self.ffn_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ffns = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim, dim))
            for _ in range(layers)
        )
        self.last_norm = nn.LayerNorm(dim)

    def build_mask(self, item_seq):
        """(B * heads, L, L) bool for nn.MultiheadAttention, True = blocked."""
        L = item_seq.size(1)
        dev = item_seq.device
        future = torch.ones(L, L, dtype=torch.bool, device=dev).triu(1)
        blocked = future[None] | (item_seq == 0)[:, None, :]
        # a leading pad would have nothing to look at
        blocked = blocked & ~torch.eye(L, dtype=torch.bool, device=dev)
        return blocked.repeat_interleave(self.heads, dim=0)

    def forward(self, item_seq):
        """item_seq: (B, L) int64 -> hidden states (B, L, dim), zero at padding"""
        B, L = item_seq.shape
        real = (item_seq != 0).unsqueeze(-1)
        pos = torch.arange(L, device=item_seq.device)
        x = self.drop(self.item_emb(item_seq) + self.pos_emb(pos)) * real
        mask = self.build_mask(item_seq)
        for n1, attn, n2, ffn in zip(self.attn_norms, self.attns, self.ffn_norms, self.ffns):
            q = n1(x)
            x = x + attn(q, q, q, attn_mask=mask, need_weights=False)[0]
            x = (x + ffn(n2(x))) * real
        return self.last_norm(x) * real

    def predict(self, item_seq, candidates):
        """candidates: (B, C) -> scores (B, C) for the item after the last one"""
        h = self.forward(item_seq)[:, -1]
        return torch.einsum("bd,bcd->bc", h, self.item_emb(candidates))
