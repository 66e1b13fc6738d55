"""Ticket classifier: first layer moved from our own softmax to SDPA.

TicketEncoder(vocab, dim, heads).forward(ids, add_mask) -> (B, T, dim)
    ids       (B, T) int
    add_mask  (B, T) float as the old pipeline builds it: 0.0 at real tokens, -inf at padding,
              added to the scores of that key (at least one real token per row)
Input of the layer, as in "Attention is all you need": embedding * sqrt(dim) plus the sinusoids
    PE[t, 2m] = sin(t / 10000 ** (2m / dim)),   PE[t, 2m + 1] = cos(t / 10000 ** (2m / dim)).
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def sinusoids(T, dim):
    table = torch.zeros(T, dim)
    t = torch.arange(T).float()
    for m in range(0, dim, 2):
        rate = 10000.0 ** (2 * m / dim)
        table[:, m] = torch.sin(t / rate)
        table[:, m + 1] = torch.cos(t / rate)
    return table


class TicketEncoder(nn.Module):
    def __init__(self, vocab, dim, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.emb = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, ids, add_mask):
        B, T = ids.shape
        x = self.emb(ids) / math.sqrt(self.dim)
        x = x + sinusoids(T, self.dim).to(x)
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn_mask = add_mask[:, None, None, :].bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        return self.out(y.transpose(1, 2).reshape(B, T, self.dim))
