"""Homework 3 - Transformer encoder for sentiment (IMDB subset).

Part (a): multi-head attention from scratch with separate projections for queries,
keys and values. Each head computes softmax(q k^T / sqrt(d_head)) v.
`mask` is (B, L), 1 = word, 0 = padding; the attention over the words sums to one.
"""
import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_model = d_model
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        B, L, _ = x.shape
        return x.view(B, L, self.num_heads, -1).transpose(1, 2)

    def forward(self, x, mask=None):
        Q = self.split_heads(self.W_q(x))
        K = self.split_heads(self.W_q(x))
        V = self.split_heads(self.W_v(x))
        scores = Q @ K.transpose(-2, -1) / math.sqrt(self.d_model)
        attention = torch.softmax(scores, dim=-1)
        if mask is not None:
            attention = attention * mask[:, None, None, :]
        out = (attention @ V).transpose(1, 2).contiguous()
        return self.W_o(out.view(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.n1(x + self.attn(x, mask))
        return self.n2(x + self.ff(x))


class SentimentModel(nn.Module):
    def __init__(self, vocab=500, d_model=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=0)
        self.enc = EncoderLayer(d_model, heads, 64)
        self.cls = nn.Linear(d_model, 2)

    def forward(self, ids):
        mask = (ids != 0).float()
        h = self.enc(self.emb(ids), mask)
        return self.cls((h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))
