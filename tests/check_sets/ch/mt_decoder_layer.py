"""Decoder layer of the en-de translation model (post-norm, Vaswani et al. 2017)."""
import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head, dropout):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        bs, len_q, len_k = query.size(0), query.size(1), key.size(1)

        # split in heads: [bs, n_head, len, d_k]
        q = self.w_q(query).view(bs, len_q, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_k(key).view(bs, len_k, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_v(value).view(bs, len_k, self.n_head, self.d_k).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attn = self.dropout(torch.softmax(scores, dim=-1))
        out = torch.matmul(attn, v)

        # concatenate the heads again
        out = out.contiguous().view(bs, len_q, self.n_head * self.d_k)
        return self.fc(out)


class DecoderLayer(nn.Module):
    """
    tgt       [bs, tgt_len, d_model]
    memory    [bs, src_len, d_model] output of the encoder
    src_mask  [bs, 1, 1, src_len], 1 for words and 0 for <pad>
    The self-attention is causal.
    """

    def __init__(self, d_model=64, n_head=4, d_ff=128, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_head, dropout)
        self.cross_attn = MultiHeadAttention(d_model, n_head, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, tgt, memory, src_mask=None):
        n = tgt.size(1)
        look_ahead = torch.tril(torch.ones(1, 1, n, n, device=tgt.device))
        tgt = self.norms[0](tgt + self.dropout(self.self_attn(tgt, tgt, tgt, look_ahead)))
        tgt = self.norms[1](tgt + self.dropout(self.cross_attn(tgt, memory, memory, src_mask)))
        return self.norms[2](tgt + self.dropout(self.ff(tgt)))
