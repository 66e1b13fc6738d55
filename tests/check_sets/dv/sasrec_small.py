"""Sequential recommender, ML-1M. Sequences are padded on the LEFT with item 0."""
import math

import torch
from torch import nn


class SelfAtt(nn.Module):
    """Causal scaled dot-product attention, several heads.

    x (B, L, D); timeline_mask (B, L) bool, True = padding (item 0).
    A position reads itself and earlier positions that are not padding. Padding rows give 0.
    Returns (B, L, D).
    """

    def __init__(self, d, nh):
        super().__init__()
        self.nh, self.dh = nh, d // nh
        self.Q, self.K, self.V = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, timeline_mask):
        B, L, D = x.shape
        Q = torch.cat(self.Q(x).split(self.dh, dim=2), dim=0)      # (nh*B, L, dh)
        K = torch.cat(self.K(x).split(self.dh, dim=2), dim=0)
        V = torch.cat(self.V(x).split(self.dh, dim=2), dim=0)

        s = Q.matmul(K.transpose(1, 2)) / math.sqrt(self.dh)
        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        hide = future | timeline_mask.unsqueeze(1)                 # (B, L, L)
        s = s.masked_fill(hide.repeat(self.nh, 1, 1), -1e9)
        a = torch.softmax(s, dim=-1)
        o = torch.cat(a.matmul(V).chunk(self.nh, dim=0), dim=2)    # (B, L, D)
        return o.masked_fill(timeline_mask.unsqueeze(-1), 0.0)


class SASRec(nn.Module):
    """log_seqs (B, L) long -> logits for all items at every position (B, L, n_items + 1)."""

    def __init__(self, n_items=100, d=32, nh=2, L=20, blocks=2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos = nn.Embedding(L, d)
        self.att = nn.ModuleList([SelfAtt(d, nh) for _ in range(blocks)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(blocks)])
        self.fc = nn.ModuleList([nn.Linear(d, d) for _ in range(blocks)])

    def forward(self, log_seqs):
        pad = log_seqs == 0
        x = self.item(log_seqs) + self.pos(torch.arange(log_seqs.size(1), device=log_seqs.device))
        x = x * (~pad).unsqueeze(-1)
        for att, ln, fc in zip(self.att, self.ln, self.fc):
            x = x + att(ln(x), pad)
            x = (x + fc(x).relu()) * (~pad).unsqueeze(-1)
        return x @ self.item.weight.T
