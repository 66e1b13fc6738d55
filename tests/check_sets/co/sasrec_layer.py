"""
SASRec - self-attentive sequential recommendation (Kang & McAuley 2018), one layer.
Unidirectional: the state of step t is computed from items 1..t. Item id 0 is padding (left-padded sessions).
"""
import math

import torch
import torch.nn as nn


class SASRecAttention(nn.Module):
    """multi-head scaled dot-product attention

    Args:
        hidden_size, num_attention_heads
    Inputs:
        seq   (B, L, hidden_size)
        valid (B, L) bool, True where there is an item
    """

    def __init__(self, hidden_size=32, num_attention_heads=2, attn_dropout=0.2):
        super().__init__()
        if hidden_size % num_attention_heads != 0:
            raise ValueError("hidden size must be a multiple of the number of heads")
        self.hidden_size = hidden_size
        self.num_heads = num_attention_heads
        self.head_size = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.attn_dropout = nn.Dropout(attn_dropout)

    def transpose_for_scores(self, x):
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, seq, valid):
        L = seq.size(1)
        q = self.transpose_for_scores(self.query(seq))
        k = self.transpose_for_scores(self.key(seq))
        v = self.transpose_for_scores(self.value(seq))

        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.hidden_size)
        future = torch.ones(L, L, dtype=torch.bool, device=seq.device).triu(1)
        blocked = future[None, None] | ~valid[:, None, None, :]
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        probs = self.attn_dropout(scores.softmax(dim=-1))

        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        ctx = ctx.view(seq.size(0), L, self.hidden_size)
        return self.dense(ctx) * valid.unsqueeze(-1)


class SASRec(nn.Module):
    def __init__(self, n_items=100, max_len=20, hidden_size=32, heads=2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, hidden_size, padding_idx=0)
        self.pos = nn.Embedding(max_len, hidden_size)
        self.ln1, self.ln2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.att = SASRecAttention(hidden_size, heads)
        self.ffn = nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size))

    def forward(self, items):
        valid = items > 0
        x = self.item(items) + self.pos(torch.arange(items.size(1), device=items.device))
        x = x + self.att(self.ln1(x), valid)
        x = x + self.ffn(self.ln2(x))
        return x[:, -1] @ self.item.weight.T
