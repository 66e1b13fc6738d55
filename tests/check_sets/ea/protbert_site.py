"""Binding site prediction: one attention layer over per-residue ProtBERT embeddings.

emb  : (B, L, D) residue embeddings, proteins of different length are padded at the end
mask : (B, L) int, 1 = residue, 0 = pad.  A residue must not look at padding.

The real rows of the output are per-residue logits; rows of padding are thrown away by the loss.
Returns (B, L).
"""
import math

import torch
import torch.nn as nn


class SitePredictor(nn.Module):
    def __init__(self, D=1024, n_heads=8, p=0.1):
        super().__init__()
        self.n_heads, self.d_k = n_heads, D // n_heads
        self.in_norm = nn.LayerNorm(D)
        self.query = nn.Linear(D, D)
        self.key = nn.Linear(D, D)
        self.value = nn.Linear(D, D)
        self.dense = nn.Linear(D, D)
        self.dropout = nn.Dropout(p)
        self.head = nn.Linear(D, 1)

    def transpose_for_scores(self, t):
        return t.view(t.size(0), t.size(1), self.n_heads, self.d_k).permute(0, 2, 1, 3)

    def forward(self, emb, mask):
        x = self.in_norm(emb)
        q = self.transpose_for_scores(self.query(x))
        k = self.transpose_for_scores(self.key(x))
        v = self.transpose_for_scores(self.value(x))

        mask = mask.unsqueeze(1).unsqueeze(3)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask == 0, -1e9)
        probs = self.dropout(torch.softmax(scores, dim=-1))

        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        ctx = ctx.view(ctx.size(0), ctx.size(1), self.n_heads * self.d_k)
        return self.head(emb + self.dense(ctx)).squeeze(-1)
