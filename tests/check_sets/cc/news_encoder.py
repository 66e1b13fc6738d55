"""NRMS-style news encoder for a recommender.

Title words -> multi-head self-attention -> additive attention pooling -> one vector.
Padding words (id 0) get no attention, neither in the self-attention nor in the
pooling; the weights on the real words of a title sum to one.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class WordSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.W = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("q", "k", "v")})

    def forward(self, x, mask):
        B, L, D = x.shape
        q, k, v = [self.W[n](x).view(B, L, self.heads, self.dk).transpose(1, 2) for n in "qkv"]
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dk)
        alpha = F.softmax(scores, dim=-1)
        alpha = alpha * mask[:, None, None, :]
        return (alpha @ v).transpose(1, 2).reshape(B, L, D)


class AdditivePooling(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.proj = nn.Linear(dim, hidden)
        self.query = nn.Parameter(torch.randn(hidden) * 0.1)

    def forward(self, x, mask):
        e = torch.tanh(self.proj(x)) @ self.query
        e = e.masked_fill(mask == 0, -1e9)
        return (F.softmax(e, dim=-1).unsqueeze(-1) * x).sum(1)


class NewsEncoder(nn.Module):
    def __init__(self, vocab, dim=32, heads=4, hidden=20, dropout=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.attn = WordSelfAttention(dim, heads)
        self.pool = AdditivePooling(dim, hidden)
        self.drop = nn.Dropout(dropout)

    def forward(self, title):
        mask = (title != 0).float()
        x = self.drop(self.emb(title))
        x = self.drop(self.attn(x, mask))
        return self.pool(x, mask)


class ClickModel(nn.Module):
    def __init__(self, vocab, **kw):
        super().__init__()
        self.news = NewsEncoder(vocab, **kw)

    def forward(self, history, candidates):
        # history [B, N, L], candidates [B, M, L]
        b, n, l = history.shape
        h = self.news(history.reshape(b * n, l)).view(b, n, -1).mean(1)
        c = self.news(candidates.reshape(-1, l)).view(b, candidates.size(1), -1)
        return (c @ h.unsqueeze(-1)).squeeze(-1)
